"""Makes a capture from stored exchanges. The capture shows each connection as it would have been on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO

from kafkawire.frames import SIZE
from wirebroker.trace.kept_frames import About, KeptExchange
from wirebroker_tools.capture.packets import Endpoint
from wirebroker_tools.capture.recording import Conversation, capture_in

KAFKA_PORT = 9092
PORTS, FIRST_PORT = 50_000, 10_000


def captured(exchanges: Iterable[tuple[KeptExchange, list[str]]]) -> bytes:
    """Returns a pcapng file with these exchanges. The caller has put the exchanges in the order of their responses. The texts
    with an exchange become comments.
    """
    file = BytesIO()
    capture = capture_in(file)
    conversations: dict[tuple[int, int], Conversation] = {}
    for (about, request, response), remarks in exchanges:
        where = about.node, about.connection
        conversation = conversations.get(where)
        if conversation is None:
            conversation = conversations[where] = capture.opened(*_ends(about), about.arrived * 1000)
        conversation.from_client(SIZE.pack(len(request)) + request, about.arrived * 1000)
        conversation.comments += remarks
        conversation.to_client(response, about.answered * 1000)
    return file.getvalue()


def _ends(about: About) -> tuple[Endpoint, Endpoint]:
    """Returns the addresses of client and server.

    The listener of a proxy is an address. The listener of a broker is only a name without a port, so the server's address gets
    Kafka's usual port.
    """
    host, _, listener = about.place.partition(" ")
    server, _, port = listener.rpartition(":")
    client = host, FIRST_PORT + about.connection % PORTS
    return client, (server, int(port)) if port.isdigit() else (host, KAFKA_PORT + max(about.node - 1, 0))
