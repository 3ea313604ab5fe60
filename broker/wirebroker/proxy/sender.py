"""The client that sent a request, as far as the proxy knows it."""

from __future__ import annotations

from typing import NamedTuple


class Sender(NamedTuple):
    """The client that sent a request."""

    client_id: str = ""
    client_host: str = ""


UNKNOWN = Sender()
