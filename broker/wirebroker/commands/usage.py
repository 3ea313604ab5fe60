"""Reads the values of flags, and raises UsageError for invalid values."""

from __future__ import annotations

from wirebroker.common.complaints import Complaint
from wirebroker.net.listener import Address, parse_address


class UsageError(Complaint, ValueError):
    """Raised if the command line cannot be carried out. The message is for the user."""


def address_in(text: str, flag: str) -> Address:
    """Returns the address that a flag names. Raises UsageError."""
    try:
        return parse_address(text)
    except ValueError as wrong:
        raise UsageError(f"{flag}: {wrong}") from None


def addresses_in(text: str, flag: str) -> list[Address]:
    """Returns the addresses that a flag names, separated by commas. Raises UsageError."""
    return [address_in(each.strip(), flag) for each in text.split(",")]


def pair(text: str, flag: str, form: str = "NAME=VALUE") -> tuple[str, str]:
    """Returns the name and the value in a text of the form `form`. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{flag} {text}: this is not {form}")
    return name.strip(), value.strip()


def whole(text: str) -> int:
    """Returns the whole number in a text, or −1 if the text is not a number of up to nine digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1
