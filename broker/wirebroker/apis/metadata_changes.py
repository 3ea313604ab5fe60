"""Requests that change the metadata in slices: each slice's changes are written down before other requests have their turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirebroker.apis.exchange import Exchange
from wirebroker.core.config_resources import unwritten
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases.changes import until

NAMES_TOPICS_ONCE = until("2.3", "CreateTopics and DeleteTopics have a result for each repetition of a topic's name").then(
    "3.3",
    True,
    "CreateTopics and DeleteTopics have one result for a topic that is named twice, and DeleteTopics refuses it",
    "KIP-833",
)

CHANGES = 32
"""The number of metadata changes in a slice."""


class MetadataChanges:
    """The responses of a request, each of which is valid once its change is written down."""

    def __init__(self, responses: list[Any], exchange: Exchange) -> None:
        """`responses` have an error_code and an error_message; the caller appends more responses before each `write_down`."""
        self._responses = responses
        self._exchange = exchange
        self._written = 0

    def write_down(self, refused: Callable[[Any, Refusal], Any] | None = None) -> None:
        """Write down the latest changes.

        If the changes cannot be written down, replace the responses by refusals, which `refused` makes.
        """
        failed = self._exchange.cluster.decisions.write_down(self._exchange.now)
        if failed is not None:
            refusal = unwritten(failed)
            for i, response in enumerate(self._responses[self._written :], self._written):
                if not response.error_code and refused is not None:
                    self._responses[i] = refused(response, refusal)
                elif not response.error_code:
                    response.error_code, response.error_message = refusal
        self._written = len(self._responses)
