"""What a proxy knows about the sender of a request."""

from __future__ import annotations

from typing import NamedTuple


class Sender(NamedTuple):
    """The client of a request."""

    client_id: str = ""
    client_host: str = ""


UNKNOWN = Sender()
