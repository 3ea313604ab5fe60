"""The pytest plugin: brokers as fixtures, and the marker with their settings.

    def test_orders(mock_kafka):
        producer = KafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers)

    @pytest.mark.mock_kafka(brokers=3, topics={"orders": 6})
    def test_three(mock_kafka): ...

With `mock_kafka`, every test gets its own brokers on new ports, which a client of an earlier test cannot reach.
`module_mock_kafka` and `session_mock_kafka` live for a module or the session. They are reset softly after each test, so a
connected service keeps running. All brokers share one event loop, in a thread that lives as long as the session (under xdist:
one for each worker).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

from wirebroker.testing import started as made

if TYPE_CHECKING:
    from wirebroker.engine.engine import Engine
    from wirebroker.mock import MockKafka
    from wirebroker.net.thread import LoopThread
    from wirebroker.proxy_kafka import ProxyKafka
    from wirebroker.trace.rows import Row

EXPLORE = "explore"
"""The only keyword of the marker that is not a setting of MockKafka."""
LONGEST_NAME = 100
"""A picture's file name has at most this many characters of the test's name."""
SHARED = ("module_mock_kafka", "session_mock_kafka")
_brokers = pytest.StashKey[list["MockKafka"]]()
"""Every started broker. Stopped brokers are removed from the list when the next test begins."""
_shared = pytest.StashKey[dict[str, "MockKafka"]]()
_explored = pytest.StashKey[Any]()
"""The exploration in progress, which runs a test once for each fault."""
_wrong = pytest.StashKey[str]()
"""The reason why a test cannot be explored."""
_makers = pytest.StashKey[dict["MockKafka", Callable[[], "MockKafka"]]]()
"""For each broker of the fixture `mock_kafka`, a function that starts another broker with the same settings."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and make the list of all brokers that tests start."""
    about = "how the mock_kafka fixture's MockKafka is set up; explore=True runs the test once for each fault"
    config.addinivalue_line("markers", f"mock_kafka(**settings): {about}")
    config.stash[_brokers] = []
    config.stash[_shared] = {}
    config.stash[_makers] = {}
    made.listeners.append(config.stash[_brokers].append)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop registering brokers."""
    made.listeners.remove(config.stash[_brokers].append)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that explores every test that uses `mock_kafka`, and the option for the pictures' folder."""
    flags = parser.getgroup("wirebroker")
    flags.addoption(
        "--mock-kafka-explore", action="store_true",
        help="run each test that uses mock_kafka once for each fault that can happen to its requests",
    )  # fmt: skip
    flags.addoption(
        "--mock-kafka-pictures", type=Path, metavar="DIR",
        help="the folder for the pictures of failed tests; wirebroker/ in pytest's cache by default",
    )  # fmt: skip


# Fixtures


@pytest.fixture(scope="session")
def mock_kafka_settings() -> Mapping[str, Any]:
    """The settings of every broker that a fixture makes. Override this fixture in a conftest.py or in a module. A marker
    adds further settings.
    """
    return {}


@pytest.fixture(scope="session")
def _wirebroker_thread() -> Iterator[LoopThread]:
    from wirebroker.apis.loading import load_broker
    from wirebroker.net.thread import LoopThread

    # Import in this thread, not in the event loop's thread: pytest rewrites imported modules, and CPython before 3.12 cannot
    # parse in two threads at the same time.
    load_broker()
    thread = LoopThread()
    yield thread
    thread.stop()


@pytest.fixture
def mock_kafka_factory(
    mock_kafka_settings: Mapping[str, Any], _wirebroker_thread: LoopThread
) -> Iterator[Callable[..., MockKafka]]:
    """Start any number of MockKafkas: `mock_kafka_factory(brokers=3)`. They stop when the test ends."""
    with ExitStack() as running:

        def start(**settings: Any) -> MockKafka:
            __tracebackhide__ = True
            kafka = _made(_wirebroker_thread, {**mock_kafka_settings, **settings})
            kafka.start()
            running.callback(kafka.stop)
            return kafka

        yield start


@pytest.fixture
def mock_kafka(
    request: pytest.FixtureRequest, mock_kafka_settings: Mapping[str, Any], _wirebroker_thread: LoopThread
) -> Iterator[MockKafka]:
    """A broker for this test alone. If the test has the marker `@pytest.mark.mock_kafka(...)`, the broker has the marker's
    settings."""
    settings = {**mock_kafka_settings, **_marked(request.node), **getattr(request, "param", {})}
    explored = request.node.stash.get(_explored, None)
    settings |= {"trace": "all"} if explored is not None else {}
    kafka = _started(request, settings, _wirebroker_thread)
    request.config.stash[_makers][kafka] = lambda: _made(_wirebroker_thread, settings)
    if explored is not None:
        explored.begin(kafka)
    yield kafka
    if explored is not None:
        explored.end(kafka)
    del request.config.stash[_makers][kafka]
    kafka.stop()


@pytest.fixture
def kafka_proxy(_wirebroker_thread: LoopThread) -> Iterator[Callable[..., ProxyKafka]]:
    """Start any number of proxies: `kafka_proxy(upstream="broker:9092")`. They stop when the test ends."""
    from wirebroker.proxy_kafka import ProxyKafka

    with ExitStack() as running:

        def start(**settings: Any) -> ProxyKafka:
            return running.enter_context(ProxyKafka(loop_thread=_wirebroker_thread, **settings))

        yield start


@pytest.fixture(scope="module")
def module_mock_kafka(
    request: pytest.FixtureRequest, mock_kafka_settings: Mapping[str, Any], _wirebroker_thread: LoopThread
) -> Iterator[MockKafka]:
    """A broker for this module, reset softly after each test that uses it. A marker in the module's `pytestmark` can give the
    broker's settings.
    """
    yield from _kept(request, {**mock_kafka_settings, **_marked(request.node)}, _wirebroker_thread)


@pytest.fixture(scope="session")
def session_mock_kafka(
    request: pytest.FixtureRequest, mock_kafka_settings: Mapping[str, Any], _wirebroker_thread: LoopThread
) -> Iterator[MockKafka]:
    """A broker for the session, with the settings in `mock_kafka_settings`. It is reset softly after each test that uses it."""
    yield from _kept(request, {**mock_kafka_settings}, _wirebroker_thread)


def _kept(request: pytest.FixtureRequest, settings: dict[str, Any], thread: LoopThread) -> Iterator[MockKafka]:
    name = request.fixturename or ""
    request.config.stash[_shared][name] = kafka = _started(request, settings, thread)
    yield kafka
    kafka.stop()


def _started(request: pytest.FixtureRequest, settings: dict[str, Any], thread: LoopThread) -> MockKafka:
    """Returns a running broker. If the settings are wrong, fails the test without a traceback."""
    try:
        kafka = _made(thread, settings)
        kafka.start()
        return kafka
    except (ValueError, TypeError, OSError) as refused:
        problem = str(refused)
    pytest.fail(f"{_place(request.node)}: {request.fixturename} cannot start: {problem}", pytrace=False)


def _made(thread: LoopThread, settings: Mapping[str, Any]) -> MockKafka:
    from wirebroker.mock import MockKafka

    __tracebackhide__ = True
    return MockKafka(loop_thread=thread, **settings)


# The marker


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each combination of a profile and a set of faults in the test's marker."""
    if "mock_kafka" not in metafunc.fixturenames:
        return
    settings: dict[str, Any] = {}
    for marker in metafunc.definition.iter_markers("mock_kafka"):
        settings = {**marker.kwargs, **settings}
    profiles, sets = settings.get("profile"), _sets(settings.get("faults"))
    choices = [[(name, {"profile": name}) for name in profiles]] if isinstance(profiles, list | tuple) else []
    choices += [[(name, {"faults": rules}) for name, rules in sets]] if sets else []
    if choices:
        runs = [("-".join(name for name, _ in run), {key: value for _, part in run for key, value in part.items()})
                for run in product(*choices)]  # fmt: skip
        names = [name for name, _ in runs]
        metafunc.parametrize("mock_kafka", [part for _, part in runs], ids=names, indirect=True)


def _sets(faults: Any) -> list[tuple[str, Any]]:
    """`faults` is a dict or a list of lists. Returns its sets of faults, each with its name. If `faults` is a single set,
    returns an empty list.
    """
    if isinstance(faults, Mapping):
        return list(faults.items())
    if isinstance(faults, list | tuple) and faults and all(isinstance(each, list | tuple) for each in faults):
        return [("+".join(rule.kind for rule in rules) or "no-fault", rules) for rules in faults]
    return []


def _marked(node: pytest.Item | pytest.Collector) -> dict[str, Any]:
    """The settings in the markers of a test, its class and its module. The marker closest to the test takes precedence."""
    settings: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("mock_kafka"))):
        if marker.args:
            pytest.fail(f"{_place(node)}: @pytest.mark.mock_kafka takes settings by name, such as brokers=3", pytrace=False)
        settings |= {name: value for name, value in marker.kwargs.items() if name != EXPLORE}
    return settings


def _place(node: pytest.Item | pytest.Collector) -> str:
    if not isinstance(node, pytest.Item):
        return node.nodeid or "the session"
    path, line, name = node.location
    return f"{path}:{(line or 0) + 1} ({name})"


def _check_marker(item: pytest.Item) -> None:
    """Fail the test if its marker has settings for a broker that other tests share."""
    used = getattr(item, "fixturenames", ())
    shared = [name for name in SHARED if name in used]
    own = any(not isinstance(node, pytest.Module) for node, _ in item.iter_markers_with_node("mock_kafka"))
    if own and shared and "mock_kafka" not in used:
        pytest.fail(
            f"{_place(item)}: {shared[0]} is shared, and a marker on one test cannot set it up; put the settings into "
            "pytestmark of the module, or into the fixture mock_kafka_settings",
            pytrace=False,
        )


# Each test


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run the test once for each fault if the test's marker has `explore=True` or the option `--mock-kafka-explore` is
    given.
    """
    wanted = next((marker.kwargs[EXPLORE] for marker in item.iter_markers("mock_kafka") if EXPLORE in marker.kwargs), None)
    wanted = item.config.getoption("--mock-kafka-explore") if wanted is None else wanted
    if not wanted or "mock_kafka" not in getattr(item, "fixturenames", ()):
        return None
    from wirebroker.tools import tools

    try:
        item.stash[_explored], run = tools().explore(item, nextitem, wanted)
    except ValueError as wrong:
        item.stash[_wrong] = str(wrong)
        return None
    run()
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check the test's marker, and forget brokers that earlier tests have stopped."""
    _check_marker(item)
    if (wrong := item.stash.get(_wrong, None)) is not None:
        pytest.fail(f"{_place(item)}: explore: {wrong}", pytrace=False)
    brokers = item.config.stash[_brokers]
    brokers[:] = [kafka for kafka in brokers if kafka.running]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each example of Hypothesis a broker of its own."""
    if hasattr(getattr(item, "obj", None), "hypothesis"):
        from wirebroker.testing import pytest_examples

        pytest_examples.prepare(item, lambda kafka: _another(item.config, kafka))


@contextmanager
def _another(config: pytest.Config, kafka: MockKafka) -> Iterator[MockKafka]:
    """Starts another broker with the settings of `kafka`. First drops stopped brokers from the list, because a failed test's
    report should show only the latest brokers.
    """
    brokers = config.stash[_brokers]
    brokers[:] = [each for each in brokers if each.running]
    with config.stash[_makers][kafka]() as made:
        yield made
    brokers.remove(made)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Softly reset the shared brokers that this test used, so that connected clients keep working."""
    yield
    for name, kafka in item.config.stash[_shared].items():
        if kafka.running and name in getattr(item, "fixturenames", ()):
            kafka.reset(soft=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add the verdicts, records and groups of each broker to the report of a failed test, and draw pictures of its trace."""
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    if (explored := item.stash.get(_explored, None)) is not None and call.excinfo is not None:
        explored.error = explored.error or call.excinfo.value
    brokers = item.config.stash[_brokers]
    if not report.failed or not brokers:
        return
    from wirebroker.testing import failure_report

    found: list[tuple[dict[str, str], list[Row]]] = []
    with suppress(RuntimeError):  # this process is a forked process
        found += [(kafka._at_last(failure_report.sections) or {}, kafka._at_last(_rows) or []) for kafka in brokers]
    found = [each for each in found if each[0]]
    for number, (sections, _) in enumerate(found, 1):
        report.sections += [(f"wirebroker {number}: {title}", text) for title, text in sections.items()]
    if explored is None:
        try:
            paths = list(_written(item, [failure_report.pictures(rows) for _, rows in found]))
        except OSError as refused:  # for example on a read-only disk
            paths = [f"they cannot be written: {refused.filename}: {refused.strerror}"]
        report.sections += [("wirebroker: pictures", "\n".join(paths))] if paths else []


def _rows(engine: Engine) -> list[Row]:
    return engine.trace.events()


def _written(item: pytest.Item, drawn: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Write the pictures of each broker to files, and yield the files' paths. The new files replace the files of the test's
    previous failure.
    """
    folder = item.config.getoption("--mock-kafka-pictures")
    cache = getattr(item.config, "cache", None)  # None with `-p no:cacheprovider`
    folder = cache.mkdir("wirebroker") if folder is None and cache is not None else folder
    if folder is None or not any(drawn):
        return
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "-", item.nodeid, flags=re.ASCII)[-LONGEST_NAME:].lstrip(".-")
    name += f"-{crc32(item.nodeid.encode(errors='replace')):08x}"
    for number, pictures in enumerate(drawn, 1):
        for kind, picture in pictures.items():
            path = folder / f"{name}-{number}-{kind}.svg"
            path.write_text(picture, encoding="utf-8")
            yield str(path)
