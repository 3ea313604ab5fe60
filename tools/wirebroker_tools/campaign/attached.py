"""The control of a run's broker. The libraries under clients/ attach to it (`WIREBROKER_CONTROL`).

A library empties the broker before each test. Before the broker is emptied, this module reads the records that earlier tests
have written. The faults of the run stay loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.endpoint import Endpoint
from wirebroker.control.endpoints import records, report, running
from wirebroker.control.problems import Problem
from wirebroker.control.table import endpoints_of
from wirebroker.engine.engine import Engine
from wirebroker.net.host import Host

if TYPE_CHECKING:
    from wirebroker.control.server import Control

CONTROL = "WIREBROKER_CONTROL"
"""The environment variable that has the address of the control."""
IN_TURN = {"GOFLAGS": "-p=1 -count=1", "RUST_TEST_THREADS": "1"}
"""Environment variables with which test programs run their tests one after the other, because all tests use the same broker.
With `-count=1`, Go does not take a test's result from its cache."""


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Tests:
    """The tests that empty the run's broker, one after the other."""

    before: Callable[[], None] = _nothing
    """called before the broker is emptied"""
    after: Callable[[], None] = _nothing
    begun: int = 0
    differences: list[str] = field(default_factory=list)
    """the tests' messages about records that they did not expect"""

    @contextmanager
    def next(self) -> Iterator[None]:
        """Returns a context for the beginning of a test. In this context, the caller empties the broker."""
        self.begun += 1
        self.before()
        yield
        self.after()

    def control(self, host: Host, new_engine: Callable[[], Engine]) -> Control:
        """Returns the control of a run's broker."""
        from wirebroker.control.server import Control  # needs the packages of the extra `control`

        return Control(_Explored(host, new_engine, self), _endpoints())


class _Explored(ControlledBroker):
    """The broker of a run."""

    def __init__(self, host: Host, new_engine: Callable[[], Engine], tests: Tests) -> None:
        super().__init__(host, new_engine)
        self.tests = tests


def _begin_test(controlled: _Explored, body: report.NewTest) -> report.Mark:
    with controlled.tests.next():
        return report.begin_test(controlled, body)


def _reset(controlled: _Explored, body: running.Reset) -> running.Health:
    with controlled.tests.next():
        return running.reset(controlled, body)


async def _compare(controlled: _Explored, topic: str, body: records.Expectation) -> records.Compared:
    try:
        return await records.compare(controlled, topic, body)
    except Problem as different:
        controlled.tests.differences.append(f"{topic}: {different}")
        raise


OWN: Mapping[str, Callable[..., object]] = {
    "/tests": _begin_test, "/reset": _reset, "/topics/{topic}/records/assert": _compare,
}  # fmt: skip


@cache
def _endpoints() -> tuple[Endpoint, ...]:
    return tuple(replace(each, handler=OWN.get(each.path, each.handler)) for each in endpoints_of("broker"))


@cache
def has_control() -> bool:
    """Tells whether the packages of the extra control are installed."""
    return find_spec("starlette") is not None and find_spec("uvicorn") is not None


def in_turn(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables with which test programs run one test after the other. The user's other settings in
    these variables stay."""
    made = {name: environment.get(name, words) for name, words in IN_TURN.items()}
    return made | {"GOFLAGS": " ".join((*environment.get("GOFLAGS", "").split(), IN_TURN["GOFLAGS"]))}
