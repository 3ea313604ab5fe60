"""The pytest plugin: `mock_kafka`, `mock_kafka_factory`, and the marker that sets them up.

    def test_orders(mock_kafka):
        producer = KafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers)

    @pytest.mark.mock_kafka(brokers=3, topics={"orders": 6})
    def test_three(mock_kafka): ...

Every test gets brokers of its own, on new ports, so that a client left over from the test before cannot reach them; they
share one event loop in a thread that lives as long as the session (under xdist: one per worker).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wirebroker.mock import MockKafka
    from wirebroker.net.thread import LoopThread

REPORTED = 20
"""Trace lines that join the report of a failed test."""
_brokers = pytest.StashKey[list["MockKafka"]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "mock_kafka(**settings): how the mock_kafka fixture's MockKafka is set up")


@pytest.fixture(scope="session")
def _wirebroker_thread() -> Iterator[LoopThread]:
    from wirebroker.apis import import_handlers
    from wirebroker.net.thread import LoopThread

    # Here and not in the loop's thread: pytest rewrites what is imported, and CPython before 3.12 cannot parse in two
    # threads at once.
    import_handlers()
    thread = LoopThread()
    yield thread
    thread.stop()


@pytest.fixture
def mock_kafka_factory(request: pytest.FixtureRequest, _wirebroker_thread: LoopThread) -> Iterator[Callable[..., MockKafka]]:
    """Start as many MockKafka as the test wants: `mock_kafka_factory(brokers=3)`; they stop when it ends."""
    from wirebroker.mock import MockKafka

    with ExitStack() as running:

        def start(**settings: Any) -> MockKafka:
            kafka = running.enter_context(MockKafka(loop_thread=_wirebroker_thread, **settings))
            request.node.stash.setdefault(_brokers, []).append(kafka)
            return kafka

        yield start


@pytest.fixture
def mock_kafka(request: pytest.FixtureRequest, mock_kafka_factory: Callable[..., MockKafka]) -> MockKafka:
    """A broker for this test alone, set up by `@pytest.mark.mock_kafka(...)` if there is one."""
    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("mock_kafka"))):
        if marker.args:
            raise pytest.UsageError("@pytest.mark.mock_kafka takes settings by name, such as brokers=3")
        settings |= marker.kwargs
    return mock_kafka_factory(**settings)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the last verdicts to the report of a test that failed."""
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when != "call" or not report.failed:
        return
    brokers: list[MockKafka] = item.stash.get(_brokers, [])
    for number, kafka in enumerate(brokers, 1):
        lines = _last_lines(kafka)
        if lines:
            report.sections.append((f"wirebroker {number}: the last verdicts", lines))
        if (plan := _plan(kafka)) is not None:
            report.sections.append((f"wirebroker {number}: its faults, as a file that loads them again", plan))


def _plan(kafka: MockKafka) -> str | None:
    try:
        if not kafka.faults.rules:
            return None
        return kafka.faults.as_toml() + "".join(f"# fired {rule.fired} of {rule.seen}: {rule}\n" for rule in kafka.faults.rules)
    except RuntimeError:  # stopped by the test itself
        return None


def _last_lines(kafka: MockKafka) -> str:
    from wirebroker.trace.layout import line

    try:
        return "\n".join(line(row) for row in kafka.trace.last(REPORTED))
    except RuntimeError:  # stopped by the test itself
        return ""
