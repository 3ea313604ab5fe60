"""Requests that change the metadata in slices: each slice's changes are written down before other requests have their turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirebroker.apis.exchange import Exchange
from wirebroker.core.config_resources import unwritten
from wirebroker.core.refusals import Refusal

CHANGES = 32
"""Changes of the metadata in a slice."""


class MetadataChanges:
    """The answers of a request, each of which is valid once its change is written down."""

    def __init__(self, answers: list[Any], exchange: Exchange) -> None:
        """`answers` have an error_code and an error_message; the caller appends more before each `write_down`."""
        self._answers = answers
        self._exchange = exchange
        self._written = 0

    def write_down(self, refused: Callable[[Any, Refusal], Any] | None = None) -> None:
        """Write down the latest changes; if that fails, turn their answers into refusals (made by `refused`)."""
        failed = self._exchange.cluster.decisions.write_down(self._exchange.now)
        if failed is not None:
            refusal = unwritten(failed)
            for i, answer in enumerate(self._answers[self._written :], self._written):
                if not answer.error_code and refused is not None:
                    self._answers[i] = refused(answer, refusal)
                elif not answer.error_code:
                    answer.error_code, answer.error_message = refusal
        self._written = len(self._answers)
