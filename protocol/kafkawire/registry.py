"""The meaning of an API key: its name, classes, versions, and header versions."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from kafkawire.declare import Message
from kafkawire.messages import APIS

PRODUCE, FETCH, API_VERSIONS, CONTROLLED_SHUTDOWN = 0, 1, 18, 7
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36

KEYS: dict[str, int] = {api.name: key for key, api in APIS.items()}
"""Maps the name of each API to its key."""

BETWEEN_NODES = frozenset(
    KEYS[name]
    for name in (
        "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "WriteTxnMarkers", "Vote", "BeginQuorumEpoch",
        "EndQuorumEpoch", "AlterPartition", "Envelope", "FetchSnapshot", "BrokerRegistration", "BrokerHeartbeat",
        "AllocateProducerIds", "ControllerRegistration", "AssignReplicasToDirs", "UpdateRaftVoter",
    )
)  # fmt: skip
"""The APIs whose requests only brokers and controllers send, whether Kafka runs with KRaft or with ZooKeeper."""


def api_name(key: int) -> str:
    """Returns the name of an API; `Api999` for a key that Kafka does not have."""
    known = APIS.get(key)
    return known.name if known else f"Api{key}"


@cache
def request_class(key: int) -> type[Message]:
    """Returns the request's class. Raises KeyError for an unknown key."""
    return _class(key, "Request")


@cache
def response_class(key: int) -> type[Message]:
    """Returns the response's class. Raises KeyError for an unknown key."""
    return _class(key, "Response")


def _class(key: int, kind: str) -> type[Message]:
    api = APIS[key]
    found: type[Message] = getattr(import_module(f"kafkawire.messages.{api.module}"), api.name + kind)
    return found


def versions(key: int) -> tuple[int, int]:
    """Returns the versions of this API that the base release serves, both inclusive; unstable newest versions are left out.

    The message classes also have the versions of older and newer releases. If the base release (`kafkawire.messages.BASE`) does
    not have the API, returns (0, −1). Raises KeyError for a key that no release has.
    """
    api = APIS[key]
    return api.oldest, api.newest


def spoken(key: int) -> tuple[int, int]:
    """Returns the versions of this API that the base release reads, both inclusive; (0, −1) for an API that it does not have.

    For old clients, Kafka also announces versions of Produce that it does not read.
    """
    return versions(key) if key in APIS else (0, -1)


def is_dropped(key: int, version: int) -> bool:
    """Tells whether brokers of the base release have this API but refuse this version. Clients of other releases may send it.
    For an API that Kafka does not have, also returns True. Returns False for an API that Kafka has, but these brokers do not:
    an API between nodes, or an API of a newer release."""
    api = APIS.get(key)
    return api is None or (api.newest >= 0 and not api.oldest <= version <= api.newest)


def is_known(key: int, version: int) -> bool:
    """Tells whether any release has this version of this API. This distinguishes requests from SASL tokens without a header,
    whose bytes almost never begin like a known request."""
    return key in APIS and 0 <= version <= request_class(key).__schema__.versions[1]


def request_header_version(key: int, version: int) -> int:
    """Returns 2 for a flexible request, else 1. Raises KeyError for an unknown key."""
    return 2 if version >= APIS[key].flexible_request else 1


def response_header_version(key: int, version: int) -> int:
    """Returns 1 for a flexible response, else 0. For ApiVersions, returns 0, so that any client can read the response
    (KIP-511)."""
    return 1 if version >= APIS[key].flexible_response and key != API_VERSIONS else 0
