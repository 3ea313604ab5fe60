"""The quotas of clients."""

from __future__ import annotations

from typing import Annotated

from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.forms import Form, about
from wirebroker.core.quotas import CLIENT_ID, IP, USER
from wirebroker.testing import operations, states
from wirebroker.testing.states import Quota

Limit = float | None


class Whose(Form):
    """The entity of the quota. `<default>` means all entities that have no quota of their own."""

    user: Annotated[str | None, about("a user's name")] = None
    client_id: Annotated[str | None, about("a client id")] = None
    ip: Annotated[str | None, about("a client's address")] = None


class NewQuota(Whose):
    """The limits of a user, of a client id, of both together, or of an address."""

    producer_byte_rate: Annotated[Limit, about("the bytes per second that clients may produce")] = None
    consumer_byte_rate: Annotated[Limit, about("the bytes per second that clients may fetch")] = None
    request_percentage: Annotated[Limit, about("the percentage of a thread's time that the clients' requests may take")] = None
    controller_mutation_rate: Annotated[Limit, about("the partitions per second that clients may create and delete")] = None
    connection_creation_rate: Annotated[Limit, about("the connections per second that may come from the address")] = None


class Quotas(Form):
    """All quotas."""

    quotas: list[Quota]


def listed(controlled: ControlledBroker) -> Quotas:
    """Returns the quotas of all clients."""
    return Quotas(states.quotas(controlled.engine))


def put(controlled: ControlledBroker, body: NewQuota) -> Quotas:
    """Set limits of a user, a client id, both together, or an address. Limits that are not given do not change."""
    named = {each: getattr(body, each) for each in NewQuota.__struct_fields__ if each not in Whose.__struct_fields__}
    limits = {key: value for key, value in named.items() if value is not None}
    operations.set_quota(controlled.engine, _entity(body), limits, controlled.now)
    controlled.changed()
    return listed(controlled)


def remove(controlled: ControlledBroker, query: Whose) -> None:
    """Remove all limits of a user, a client id, both together, or an address."""
    operations.remove_quota(controlled.engine, _entity(query), controlled.now)
    controlled.changed()


def _entity(whose: Whose) -> dict[str, str | None]:
    return {USER: whose.user, CLIENT_ID: whose.client_id, IP: whose.ip}
