"""Requests that change the metadata in slices. The changes of a slice are written down before other requests are handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirebroker.apis.exchange import Exchange
from wirebroker.common.slices import End, pauses
from wirebroker.core.config_resources import unwritten
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases.changes import until

NAMES_TOPICS_ONCE = until("2.3", "CreateTopics and DeleteTopics have a result for each repetition of a topic's name").then(
    "3.3",
    True,
    "CreateTopics and DeleteTopics have one result for a topic that is named twice; DeleteTopics refuses such a topic",
    "KIP-833",
)

CHANGES = 32
"""The number of metadata changes in a slice."""


class MetadataChanges:
    """The changes that a request makes, and a response for each change. A response may be sent only after its change was
    written down."""

    def __init__(
        self, exchange: Exchange, responses: list[Any], refused: Callable[[Any, Refusal], Any] | None = None,
        every: int = CHANGES,
    ) -> None:  # fmt: skip
        """The caller appends its responses to `responses`. Each response has an error_code and an error_message. If a change
        cannot be written down, `refused` makes another response that replaces the change's response."""
        self._exchange = exchange
        self._responses = responses
        self._refused = refused
        self._pause = pauses(every)
        self._written = 0
        self.failed: Exception | None = None
        """The reason why changes could not be written down, or None."""

    def pause(self) -> End:
        """A `Pause` that writes the changes down at the end of a slice."""
        if end := self._pause():
            self.write_down()
        return end

    def write_down(self) -> None:
        """Write down the latest changes. If they cannot be written down, their responses become refusals."""
        failed = self._exchange.cluster.decisions.write_down(self._exchange.now)
        if failed is not None:
            self.failed = failed
            refusal = unwritten(failed)
            for i, response in enumerate(self._responses[self._written :], self._written):
                if not response.error_code and self._refused is not None:
                    self._responses[i] = self._refused(response, refusal)
                elif not response.error_code:
                    response.error_code, response.error_message = refusal
        self._written = len(self._responses)
