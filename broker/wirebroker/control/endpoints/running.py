"""The broker as a whole: its health, its clock, restarts, resets and snapshots."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from msgspec import Meta

from wirebroker.common.version import __version__
from wirebroker.control.controlled import Controlled, ControlledBroker
from wirebroker.control.endpoints.records import LONGEST_WAIT_S
from wirebroker.control.forms import Form, about
from wirebroker.control.problems import Problem
from wirebroker.testing.goals import Quiet

MS = {"weeks": 604_800_000, "days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000, "milliseconds": 1}
FURTHEST_MS = 366 * MS["days"]
"""One request may move the clock by at most this many ms."""


class Health(Form):
    """The state of the broker or the proxy, and the addresses for clients."""

    status: Annotated[Literal["ok", "unreachable"], about("unreachable: the proxy runs, but cannot reach a broker")]
    problem: Annotated[str, about('which broker the proxy cannot reach, and why; "" if the proxy reaches all brokers')]
    version: Annotated[str, about("the version of wirebroker")]
    bootstrap_servers: Annotated[str, about("the advertised addresses, comma-separated", examples=["127.0.0.1:9092"])]
    connections: Annotated[int, about("the number of connected clients")]
    now: Annotated[int, about("the time of the broker's or proxy's clock, in ms since the epoch")]


class ClockState(Form):
    """The broker's clock."""

    now: Annotated[int, about("ms since the epoch")]
    frozen: Annotated[bool, about("true if the clock moves only by /clock/advance")]


class Step(Form):
    """The time by which the clock moves: the sum of the fields, up to 366 days."""

    weeks: Annotated[float, Meta(ge=0)] = 0
    days: Annotated[float, Meta(ge=0, examples=[8])] = 0
    hours: Annotated[float, Meta(ge=0)] = 0
    minutes: Annotated[float, Meta(ge=0)] = 0
    seconds: Annotated[float, Meta(ge=0)] = 0
    milliseconds: Annotated[float, Meta(ge=0)] = 0


class Reset(Form):
    """The options of a reset of the broker."""

    soft: Annotated[bool, about("clients continue; connections, topics and groups stay, and the logs become empty")] = False


class Kept(Form):
    """A kept snapshot."""

    id: Annotated[int, about("the snapshot's id, for /snapshots/{snapshot}")]
    now: Annotated[int, about("the broker's time when the snapshot was taken, in ms since the epoch")]


class Calm(Form):
    """The time during which nothing may change."""

    seconds: Annotated[float, about("the time without changes, by the machine's clock", ge=0, le=LONGEST_WAIT_S)] = 0.2
    timeout: Annotated[float, about("wait at most this many seconds", ge=0, le=LONGEST_WAIT_S)] = 5.0


def health(controlled: Controlled) -> Health:
    """Returns the state of the broker or the proxy, and the addresses for clients."""
    problem = controlled.problem
    status: Literal["ok", "unreachable"] = "unreachable" if problem else "ok"
    return Health(status, problem, __version__, controlled.bootstrap_servers, controlled.connections, controlled.now)


def clock(controlled: ControlledBroker) -> ClockState:
    """Returns the time of the broker's clock."""
    return ClockState(controlled.now, not controlled.host.clock.running)


async def advance(controlled: ControlledBroker, body: Step) -> ClockState:
    """Move the clock forward and run every due timer, in order.

    The clients' own timers do not follow this clock.
    """
    asked = sum(getattr(body, name) * MS[name] for name in body.__struct_fields__)
    if asked > FURTHEST_MS:
        raise Problem(422, f"one request moves the clock by at most 366 days, not by {asked / MS['days']:g}")
    left = await controlled.host.advance_beside(round(asked), lambda: not controlled.closing)
    if left and controlled.closing:
        raise Problem(503, f"the broker is stopping; {left} ms were left")
    if left:
        raise Problem(409, f"a reset has set the clock back while it was moved; {left} ms were left")
    return clock(controlled)


async def wait_until_quiet(controlled: ControlledBroker, query: Calm) -> Health:
    """Wait until the broker has been quiet for some time: no record stored, no offset committed, and no group or transaction
    changed. If the broker is not quiet before the timeout, the response is 409."""
    await controlled.reach(Quiet(query.seconds, time.monotonic), query.timeout)
    return health(controlled)


def reset(controlled: ControlledBroker, body: Reset) -> Health:
    """Reset the broker to the topics, settings and faults with which it was started. Closes all connections.

    With `soft`, clients continue: connections, topics and groups with their members stay. The logs become empty, committed
    offsets move to the ends of the logs, and faults, trace and clock are as at the start.
    """
    controlled.reset(soft=body.soft)
    return health(controlled)


def take_snapshot(controlled: ControlledBroker) -> Kept:
    """Take a snapshot of the broker's whole state and time. Clients stay connected.

    The broker keeps at most 16 snapshots. The broker takes no snapshot if it has a data directory. It also takes no snapshot
    while a broker is down, a follower does not fetch, or a replica moves.
    """
    number, made = controlled.take_snapshot()
    return Kept(number, made.now)


def restore(controlled: ControlledBroker, snapshot: int) -> Health:
    """Go back to a snapshot, which stays available. Closes all connections, and resets faults and trace."""
    controlled.restore(snapshot)
    return health(controlled)


def delete_snapshot(controlled: ControlledBroker, snapshot: int) -> None:
    """Delete a snapshot, and free its memory."""
    controlled.delete_snapshot(snapshot)
