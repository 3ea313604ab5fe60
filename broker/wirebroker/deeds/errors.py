"""The errors of deeds. The HTTP control responds to an `Unfit` with the error's `status`, and names the error's `field`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from wirebroker.common.suggestions import did_you_mean

__tracebackhide__ = True  # pytest shows the caller's line


class NothingToChange(ValueError):
    """Raised if a deed cannot change the broker's state: the object to change does not exist, or its state forbids the change.
    The message names the reason."""


class Unfit(ValueError):
    """Raised if an argument of a deed does not fit the broker's state. `field` is the argument's name in the HTTP control, and
    `status` is the HTTP status."""

    status: ClassVar[int]
    field: str


class NoSuch(Unfit, NothingToChange):
    """Raised if the object that the argument `field` names does not exist."""

    status = 404

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NoSuchTopic(NoSuch, KeyError):
    """Raised if the topic does not exist. `known` are the existing topics."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        super().__init__("topic", f"there is no topic {name!r}{did_you_mean(name, known)}")

    __str__ = ValueError.__str__  # a KeyError would put the message in quotes


class NoSuchPartition(NoSuch, IndexError):
    """Raised if the topic has no such partition."""
