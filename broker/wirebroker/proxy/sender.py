"""The sender of a request, as far as a proxy knows it."""

from __future__ import annotations

from typing import NamedTuple


class Sender(NamedTuple):
    """The client of a request."""

    client_id: str = ""
    client_host: str = ""


UNKNOWN = Sender()
