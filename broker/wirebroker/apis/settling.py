"""Requests that change the metadata in slices: what a slice has changed is written down before others have their turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirebroker.core.config_resources import Refusal, unwritten
from wirebroker.exchange import Exchange

CHANGES = 32
"""Changes of the metadata in a slice."""


class Settling:
    """The answers of a request, each of which holds once its change is written down."""

    def __init__(self, answers: list[Any], exchange: Exchange) -> None:
        """`answers` have an error_code and an error_message; more are appended between two calls of `settle`."""
        self._answers = answers
        self._exchange = exchange
        self._settled = 0

    def settle(self, refused: Callable[[Any, Refusal], Any] | None = None) -> None:
        """Write down what has changed; if that fails, the answers that say so become refusals (made by `refused`)."""
        failed = self._exchange.cluster.decisions.settle(self._exchange.now)
        if failed is not None:
            refusal = unwritten(failed)
            for i, answer in enumerate(self._answers[self._settled :], self._settled):
                if not answer.error_code and refused is not None:
                    self._answers[i] = refused(answer, refusal)
                elif not answer.error_code:
                    answer.error_code, answer.error_message = refusal
        self._settled = len(self._answers)
