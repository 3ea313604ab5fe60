"""The client that sent a request, as the proxy sees it."""

from __future__ import annotations

from typing import NamedTuple


class Sender(NamedTuple):
    """The client that sent a request."""

    client_id: str = ""
    client_host: str = ""


UNKNOWN = Sender()
