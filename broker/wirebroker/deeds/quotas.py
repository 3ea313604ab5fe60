"""The quotas of clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from wirebroker.core.quotas import (
    CLIENT_ID,
    CONNECTION,
    FETCH,
    IP,
    MUTATION,
    PRODUCE,
    REQUEST,
    USER,
    entity_error,
    entity_of,
    kept,
    value_error,
)
from wirebroker.deeds.declaring import UNWRITTEN, Deeds, about, deed, write_down

if TYPE_CHECKING:
    from wirebroker.core.cluster import Cluster

__tracebackhide__ = True  # pytest shows the caller's line
User = Annotated[str | None, about("a user's name")]
ClientId = Annotated[str | None, about("a client id")]
Ip = Annotated[str | None, about("a client's address")]
Limit = float | None
DEFAULT = "<default>"
"""In quotas, this name stands for the default entity of a type."""


class QuotaDeeds(Deeds):
    """The deeds that change the quotas of clients."""

    @deed("POST", "/quotas", shows="quotas", problems=UNWRITTEN)
    def set(
        self, *, user: User = None, client_id: ClientId = None, ip: Ip = None,
        producer_byte_rate: Annotated[Limit, about("the bytes per second that clients may produce")] = None,
        consumer_byte_rate: Annotated[Limit, about("the bytes per second that clients may fetch")] = None,
        request_percentage: Annotated[
            Limit, about("the percentage of a thread's time that the clients' requests may take")
        ] = None,
        controller_mutation_rate: Annotated[
            Limit, about("the partitions per second that clients may create and delete")
        ] = None,
        connection_creation_rate: Annotated[
            Limit, about("the connections per second that may come from the address")
        ] = None,
    ) -> None:  # fmt: skip
        """Set limits of a user, a client id, both together, or an address. Limits that are not given do not change. Raises
        ValueError if Kafka would refuse a limit."""
        named = {
            PRODUCE: producer_byte_rate, FETCH: consumer_byte_rate, REQUEST: request_percentage,
            MUTATION: controller_mutation_rate, CONNECTION: connection_creation_rate,
        }  # fmt: skip
        limits = {key: float(value) for key, value in named.items() if value is not None}
        set_quota(self._engine.cluster, {USER: user, CLIENT_ID: client_id, IP: ip}, limits, self._now)

    @deed("DELETE", "/quotas", problems=UNWRITTEN)
    def remove(self, *, user: User = None, client_id: ClientId = None, ip: Ip = None) -> None:
        """Remove all limits of a user, a client id, both together, or an address. Does nothing if no such limit is set."""
        entity = entity_of(_names({USER: user, CLIENT_ID: client_id, IP: ip}))
        quotas = self._engine.cluster.quotas
        self._engine.cluster.alter_quotas([(entity, key, None) for key in quotas.limits.get(entity, {})])
        self._write_down()


def set_quota(cluster: Cluster, entity: Mapping[str, str | None], limits: Mapping[str, float], now: int) -> None:
    """Set limits of an entity. `entity` has a name for each entity type. Raises ValueError if Kafka would refuse a limit, and
    OSError if the broker cannot write to its data directory."""
    names, release = _names(entity), cluster.configs.release
    error = entity_error(names, names, release)
    for key, value in limits.items():
        error = error or value_error(names, key, value, release)
    if error is not None:
        raise ValueError(error)
    cluster.alter_quotas([(entity_of(names), key, kept(key, value, release)) for key, value in limits.items()])
    write_down(cluster, now)


def _names(entity: Mapping[str, str | None]) -> dict[str, str | None]:
    return {kind: None if name == DEFAULT else name for kind, name in entity.items() if name is not None}
