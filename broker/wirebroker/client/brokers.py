"""Connections to the brokers of a cluster, if necessary with TLS and a login."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kafkawire.messages.metadata import MetadataResponse
from wirebroker.client.login import log_in
from wirebroker.client.settings import Access
from wirebroker.client.wire import CLIENT_ID, TIMEOUT, UNLIMITED, Connection, Connections, Limits, address_of


class Brokers(Connections):
    """Connections to brokers, named by `host:port`.

    The connections use the TLS and the login of `access`, so every method can also raise LoginFailed.
    """

    def __init__(
        self, access: Access | None = None, timeout: float = TIMEOUT, client_id: str = CLIENT_ID, limits: Limits = UNLIMITED
    ) -> None:
        super().__init__()
        self._limits = limits
        self._access, self._timeout, self._client_id = access or Access(), timeout, client_id
        self._tls = self._access.context()

    def connect(self, address: str) -> Connection:
        """Returns a new connection to the broker at this address. Raises ConnectionClosed, NoResponse, ProtocolError,
        LoginFailed, ValueError.
        """
        made = Connection(address_of(address), self._timeout, self._client_id, self._tls, self._limits)
        try:
            log_in(made, self._access)
        except BaseException:
            made.close()
            raise
        return made

    def renew(self, connection: Connection) -> None:
        """If the session of a connection ends soon, log in again, as `connect` does. The connection must not await a
        response."""
        if time.monotonic() >= connection.session_ends:
            log_in(connection, self._access)

    @contextmanager
    def _open(self, name: str, reads_on: bool = False) -> Iterator[Connection]:
        with super()._open(name, reads_on) as held:
            if not held.awaited:
                self.renew(held)
            yield held


def leaders_in(metadata: MetadataResponse) -> Iterator[tuple[tuple[str, int], str]]:
    """Yields each partition that Metadata describes without an error, with the address of the partition's leader. Without a
    leader, the address is ""."""
    brokers = {each.node_id: f"{each.host}:{each.port}" for each in metadata.brokers}
    for topic in metadata.topics:
        for each in topic.partitions if not topic.error_code else ():
            yield (topic.name or "", each.partition_index), brokers.get(each.leader_id, "")
