"""Fixtures and settings of all tests."""

import gc
import logging
import os
import signal
import threading
import tomllib
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

import sampling
from wirebroker.proxy_kafka import ProxyKafka
from wirebroker.testing.waits import Waits

PATIENCE = 60.0
"""The longest time, in seconds, that a test waits by default. It is longer than the default for users, because the machine may
be busy."""
os.environ.setdefault("WIREBROKER_EXIT_WITH_PARENT", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # If a shell starts a command in the background, the command ignores SIGINT. The processes of the tests would inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Hypothesis has no deadline, because the time of an example depends more on the machine than on the code.
settings.register_profile("wirebroker", deadline=None)
settings.load_profile("wirebroker")


for waiting in (*vars(Waits).values(), ProxyKafka.wait_until):
    if defaults := getattr(waiting, "__defaults__", None):
        waiting.__defaults__ = tuple(PATIENCE if each == 5.0 else each for each in defaults)


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Pytest's fixture, without the log messages of clients. A client of an earlier test may have left threads behind, which
    still log."""
    caplog.handler.addFilter(lambda record: record.name.partition(".")[0] not in ("kafka", "aiokafka"))
    return caplog


def client_threads() -> set[str]:
    """Returns the names of the main threads of this process's librdkafka clients and kafka-python producers."""
    found = {each.name for each in threading.enumerate() if each.name.startswith("kafka-python-producer")}
    for task in Path("/proc/self/task").glob("*"):  # only Linux has this directory
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
            if (task / "comm").read_text(encoding="utf-8").strip() == "rdk:main":
                found.add(f"rdk:main {task.name}")
    return found


@pytest.fixture(autouse=True)
def _no_client_is_left() -> Iterator[None]:
    """Fails if a test leaves a client behind: the client would still connect to its broker's port, which can be the port of a
    later test's broker."""
    before = client_threads()
    yield
    if client_threads() - before:
        gc.collect()
        assert client_threads() <= before, "the test has left a client behind"


class OwnErrors(logging.Handler):
    """Keeps what wirebroker logs about errors in its own code."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "error in wirebroker" in (said := logging.Formatter().format(record)):
            self.found.append(said)


@pytest.fixture(autouse=True)
def _nothing_failed_unseen(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails if wirebroker logs an error in its own code during a test. A server lives on after such an error, so a test may
    pass nevertheless. A test that takes `caplog` looks at the log itself."""
    logger, errors = logging.getLogger("wirebroker"), OwnErrors()
    logger.addHandler(errors)
    yield
    logger.removeHandler(errors)
    if "caplog" not in request.fixturenames:
        assert not errors.found, errors.found[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", choices=("push", "all"), default="all", help="which tests run; see tests/sampling.py")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("share") == "push":
        sampling.seed()  # set the seed before the workers start, because they inherit it
        # Each push tries the same examples. The nightly run, which runs all tests, tries new examples.
        settings.register_profile("push", settings.get_profile("wirebroker"), derandomize=True)
        settings.load_profile("push")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("share") == "push":
        left_out = {item for item in items if sampling.left_out(item.nodeid, item.get_closest_marker("slow") is not None)}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("share") == "push":
        terminalreporter.write_line(sampling.summary())


def pytest_sessionstart() -> None:
    """Refuse to test compiled modules that are older than their sources."""
    root = Path(__file__).resolve().parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    for source in (root / name for name in project["tool"]["wirebroker"]["compiled"]):
        made = [each for suffix in ("so", "pyd") for each in source.parent.glob(f"{source.stem}.*.{suffix}")]
        if made and min(each.stat().st_mtime for each in made) < source.stat().st_mtime:
            pytest.exit(f"{source.name} has changed since it was compiled: run scripts/compile, or scripts/compile --clean", 2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freezes the collected tests and their imports, so that the garbage collector does not scan them each time it runs."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # without a collection, because it takes two seconds and finds hardly any garbage
        gc.enable()
