"""Code that reads files or command-line values must, within a second, accept any content or refuse it with a message."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from fuzzing.logins import LOGINS, log_in
from fuzzing.sessions import CAPTURES, DECODED
from wirebroker.audit.journal import FIELDS, intended_rows
from wirebroker.commands import serve
from wirebroker.commands.cli import build_parser, main
from wirebroker.commands.environment import from_environment
from wirebroker.core.configs import BrokerConfigs, ConfigError, TopicConfigs
from wirebroker.core.profile import PROFILES, profile
from wirebroker.core.setting_definitions import BROKER_SETTINGS, TOPIC_SETTINGS
from wirebroker.faults.files import FaultFileError, dump, file_kinds, loads
from wirebroker.faults.files import load as load_faults
from wirebroker.testing.options import BrokerOptions, OptionError
from wirebroker.trace.rows import EVENTS
from wirebroker_tools.commands import trace
from wirebroker_tools.scenarios.reading import find
from wirebroker_tools.scenarios.scenario import ScenarioError
from wirebroker_tools.scenarios.workload import Workload

LONGEST = 1.0
"""The longest CPU time, in seconds, for reading an input. The largest input has some 60 KiB."""
REPEATED = 1 << 16

# The parts of the inputs

HUGE_NUMBERS = (-(2**63), 2**63, 2**31, -1, 0, 1, 10**30, 10**16)
HUGE = st.sampled_from(HUGE_NUMBERS)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(("", "orders", "Produce", "clean", "kill", "NONE", "\x00", "é", "9" * 5000, "[[fault]]")),
)
SCALARS = st.one_of(HUGE, st.integers(), st.booleans(), TEXTS, st.floats(), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
DEEP = st.integers(1, 20_000).map(lambda depth: "[" * depth)
PIECES = st.one_of(
    st.sampled_from((
        "a.b.c.d.e.f = 1\n", "[[fault]]\n", '[[fault]]\nkind = "delay"\nms = 1\n', "a = {b = {}}\n", "[a.b.c]\n",
        "x" , " ", "=", "\n",
        '{"topic": "a"}\n', "[", "{", '"', "'''", "#", "\\u0000", ",", "é",
    )),
    st.text(max_size=8),
)  # fmt: skip
REPEATS = st.tuples(PIECES, st.integers(1, 5000)).map(lambda pair: (pair[0] * pair[1])[:REPEATED])


def toml(value: Any) -> str:
    """Returns a value as TOML. None becomes the word null, which is not valid TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(repr(value), repr(value))
    return json.dumps(value, ensure_ascii=False)


def tables(words: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Makes the lines of a TOML table. Most keys are from these words."""
    pairs = st.dictionaries(st.sampled_from(words) | st.text(min_size=1, max_size=5), VALUES, max_size=5)
    return pairs.map(lambda table: "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in table.items()))


def spoilt(examples: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Makes texts by replacing a part of an example with another text."""

    def spoil(text: str, at: float, size: int, piece: str) -> str:
        start = int(at * len(text))
        return text[:start] + piece + text[start + size :]

    return st.builds(spoil, st.sampled_from(examples), st.floats(0, 1), st.integers(0, 30), PIECES | REPEATS)


@cache
def fault_files() -> tuple[str, ...]:
    """Valid fault files."""
    return (
        'seed = 7\n\n[[fault]]\nkind = "lose_ack"\napi = "Produce"\nnth = [2, 5]\n',
        '[[fault]]\nkind = "delay"\nms = 5\n',
    )


@cache
def scenario_files() -> tuple[str, ...]:
    """Returns the texts of the scenarios that come with wirebroker."""
    return tuple(each.read_text(encoding="utf-8") for each in files("wirebroker_tools.scenarios").joinpath("files").iterdir())


FAULT_WORDS = (
    "kind",
    "api",
    "topic",
    "partition",
    "nth",
    "every",
    "times",
    "ms",
    "code",
    "bytes",
    "probability",
    "sequence",
    "version",
)
FAULT = st.tuples(st.sampled_from(tuple(file_kinds())) | st.text(max_size=5), tables(FAULT_WORDS)).map(
    lambda pair: f"[[fault]]\nkind = {json.dumps(pair[0], ensure_ascii=False)}\n{pair[1]}"
)
FAULT_TEXT = st.one_of(
    spoilt(fault_files()), FAULT, st.lists(FAULT, max_size=3).map("\n".join), tables(("seed", "fault")), REPEATS,
    DEEP.map("a = ".__add__),
    st.text(),
)  # fmt: skip
SCENARIO_WORDS = ("title", "behaviours", "broker_does", "good_client", "sources", "clients", "others", "broker",
         "producer", "fault",
                  "steps", "expect", "part")  # fmt: skip
LEARNED = """format = 1
[settings]
"message.max.bytes" = "2000000"
[altered]
"min.insync.replicas" = "1"
[features]
"transaction.version" = [0, 2, 1]
[[broker]]
node_id = 1
rack = "a"
settings = { "num.io.threads" = "3" }
[[broker]]
node_id = 2
[[topic]]
name = "orders"
replicas = [[1, 2], [2, 1]]
settings = { "retention.ms" = "1000" }
[[group]]
name = "team"
type = "share"
settings = { "share.record.lock.duration.ms" = "20000" }
[[quota]]
entity = { user = "alice" }
limits = { producer_byte_rate = 1000.0 }
[[acl]]
permission = "ALLOW"
principal = "User:alice"
operation = "READ"
resource = "TOPIC"
name = "orders"
[[user]]
name = "alice"
mechanisms = { SCRAM-SHA-256 = 4096 }
[api_versions]
Fetch = [4, 12]
"""
"""A valid file of a learned cluster."""
LEARNED_WORDS = ("release", "exact", "settings", "altered", "features", "broker", "topic", "group", "quota", "acl", "user",
                 "unread", "api_versions")  # fmt: skip
LEARNED_TEXT = st.one_of(
    spoilt((LEARNED,)), tables(LEARNED_WORDS).map("format = 1\n".__add__), tables(("node_id", "rack", "settings")).map(
        "format = 1\n[[broker]]\n".__add__
    ), REPEATS,
)  # fmt: skip
STEP_WORDS = [name.removeprefix("_do_") for name in vars(Workload) if name.startswith("_do_")]
STEPS = st.lists(st.dictionaries(st.sampled_from(STEP_WORDS), VALUES, max_size=2), max_size=3)
HEAD = 'title = "t"\nbroker_does = "b"\ngood_client = "g"\nsources = ["KIP-98"]\n'
SCENARIO_TEXT = st.one_of(
    spoilt(scenario_files()), tables(SCENARIO_WORDS), tables(SCENARIO_WORDS[8:]).map(HEAD.__add__), REPEATS,
    DEEP.map("a = ".__add__),
    st.tuples(STEPS, tables(("expect", "broker", "producer",
    "part"))).map(lambda two: f"{HEAD}steps = {toml(two[0])}\n{two[1]}"),
)  # fmt: skip
LINES = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), VALUES, max_size=5).map(json.dumps)
JOURNAL = st.lists(st.one_of(LINES, REPEATS, DEEP, st.text(max_size=30), VALUES.map(json.dumps)), max_size=4).map("\n".join)


def _of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Makes values of this type, and in rare cases of another type."""
    if get_origin(hint) is Literal:
        fitting: st.SearchStrategy[Any] = st.sampled_from(get_args(hint))
    elif get_origin(hint) is tuple:
        fitting = st.lists(_of_type(get_args(hint)[0]), max_size=3)
    else:
        kinds = get_args(hint) or (hint,)
        by_kind = {int: HUGE | st.just(1_800_000_000_000), str: TEXTS, bool: st.booleans(), type(None): st.none()}
        fitting = st.one_of([by_kind.get(kind, SCALARS) for kind in kinds])
    return st.one_of(fitting, fitting, fitting, fitting, VALUES)


def _row(event: str) -> st.SearchStrategy[str]:
    hints = get_type_hints(EVENTS[event])
    fields = {name: _of_type(hints[name]) for name in EVENTS[event].__match_args__}
    return st.fixed_dictionaries(fields).map(lambda row: json.dumps({"event": event} | row))


def _typed_row(event: str) -> st.SearchStrategy[str]:
    """Makes a trace row with mostly valid fields, so that the reader accepts and shows it."""
    return st.tuples(_row(event), st.sampled_from((*HUGE_NUMBERS, 1_800_000_000_000))).map(
        lambda two: json.dumps(json.loads(two[0]) | {"time": two[1]})
    )


TRACE = st.lists(
    st.one_of([st.one_of(_row(event), _typed_row(event)) for event in EVENTS] + [DEEP, REPEATS, VALUES.map(json.dumps)]),
    max_size=6,
).map("\n".join)


# The readers

Given = Any


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader under test, its inputs, and the errors that it may raise."""

    inputs: st.SearchStrategy[Given]
    read: Callable[[Given], object]
    errors: tuple[type[BaseException], ...]


def _in_file(read: Callable[[Path], object], name: str) -> Callable[[Given], object]:
    """Returns a function. It writes its input to a file `name`, and calls `read` with this file."""

    def reading(given_: Given) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(given_ if isinstance(given_, bytes) else given_.encode("utf-8", "surrogatepass"))
            return read(path)

    return reading


def _fault_file(path: Path) -> None:
    found = load_faults(path)
    loads(dump(found.rules, found.seed or 0), "what was written")


def _learned_file(path: Path) -> None:
    BrokerOptions(like=path).new_engine(1)


def _show_trace(path: Path) -> None:
    for more in ([], ["--timeline"], ["--since", "12:30"], ["--event", "produce"]):
        options = build_parser().parse_args(["trace", "show", str(path), *more])
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            trace.run(options)


def _diff(path: Path) -> None:
    _quietly(["diff", str(path), str(path)], (0, 2))


def _decode(words: list[str]) -> None:
    _quietly(words, (0, 1, 2))


def _quietly(words: list[str], codes: tuple[int, ...]) -> None:
    """Run a command. Raises AssertionError if the command's exit code is not in `codes`, or if the command fails without a
    message."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = main(words)
    assert code in codes, f"exit code {code}"
    assert not code or said.getvalue().strip(), f"exit code {code} without a message"


def _broker_settings(given_: tuple[str, str]) -> None:
    configs = BrokerConfigs({given_[0]: given_[1]})
    for name in (*BROKER_SETTINGS, *TOPIC_SETTINGS):
        configs.text(name)
    configs.describe(1)


def _topic_settings(given_: tuple[str, str]) -> None:
    TopicConfigs(BrokerConfigs({}), {given_[0]: given_[1]}).describe(1)


def _altered(given_: tuple[str, str]) -> None:
    configs = BrokerConfigs({})
    configs.alter({given_[0]: given_[1]})
    configs.describe(1)


def _rules(given_: tuple[str, str, str]) -> None:
    profile(given_[0], **{given_[1]: given_[2]})


def _command_line(given_: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        build_parser().parse_args(given_)


def _serve_flags(given_: dict[str, str]) -> None:
    options = build_parser().parse_args(["serve"])
    options.topic, options.listener = [], [given_["listener"]]
    options.advertise, options.config = given_["advertise"], [given_["config"]]
    environment = {"KAFKA_LISTENERS": given_["listeners"], "KAFKA_X": "1"}
    for work in (
        lambda: from_environment(options, environment), lambda: serve.listeners(options, {}, [1]),
        lambda: serve.control_address(given_["control"]),
    ):  # fmt: skip
        with contextlib.suppress(serve.UsageError):
            work()


SETTING_VALUES = st.one_of(
    TEXTS,
    st.integers().map(str),
    st.floats().map(str),
    REPEATS,
    st.sampled_from(("true", "*", "0:1", "a , b", "١٢٣", "1_000", "+5", "0x10")),
)
NAMES = st.sampled_from((*BROKER_SETTINGS, *TOPIC_SETTINGS)) | st.text(max_size=10)
ADDRESSES = st.one_of(
    TEXTS, st.sampled_from(("A=h:1", "A=[::1]:0@x:99999", "PLAINTEXT://:9092", "A://b:1,,C://", "h:", ":", "::",
    "h:٣", "1", "²", "h:²")),
    st.builds("{}={}:{}@{}".format, TEXTS, TEXTS, HUGE, TEXTS),
)  # fmt: skip
WORDS = st.sampled_from((
    "serve", "--port", "--topic", "orders:3", "--config", "a=b", "--set", "window=4", "--max-version", "Produce=9",
    "health", "trace",
    "show", "--since", "audit", "scenario", "run", "list", "--brokers", "--timeout", "--version", "-h",
    "--profile", "demo", "--clock",
    "conformance", "--speed", "--seed", "--random-seed", "--trace-level", "--data", "--sync",
)) | TEXTS  # fmt: skip
OTHER_ENCODINGS = st.binary(max_size=60)

READERS: dict[str, Reader] = {
    "fault files": Reader(FAULT_TEXT | OTHER_ENCODINGS, _in_file(_fault_file, "faults.toml"), (FaultFileError,)),
    "scenarios": Reader(SCENARIO_TEXT | OTHER_ENCODINGS, _in_file(lambda path: find(str(path)), "scenario.toml"),
    (ScenarioError,)),
    "learned clusters": Reader(LEARNED_TEXT | OTHER_ENCODINGS, _in_file(_learned_file, "learned.toml"), (OptionError,)),
    "journals": Reader(JOURNAL | OTHER_ENCODINGS, _in_file(intended_rows, "journal.jsonl"), (ValueError,)),
    "traces": Reader(TRACE | OTHER_ENCODINGS, _in_file(_show_trace, "trace.jsonl"), ()),
    "captures": Reader(CAPTURES | OTHER_ENCODINGS, _in_file(_show_trace, "session.pcapng"), ()),
    "sessions": Reader(CAPTURES, _in_file(_diff, "session.pcapng"), ()),
    "frames": Reader(DECODED, _decode, ()),
    "logins": Reader(LOGINS, log_in, (ValueError,)),
    "broker settings": Reader(st.tuples(NAMES, SETTING_VALUES), _broker_settings, (ConfigError,)),
    "topic settings": Reader(st.tuples(NAMES, SETTING_VALUES), _topic_settings, (ConfigError,)),
    "altered settings": Reader(st.tuples(NAMES, SETTING_VALUES), _altered, (ConfigError,)),
    "profiles": Reader(
        st.tuples(st.sampled_from(tuple(PROFILES)) | TEXTS, st.sampled_from(("window", "gap",
        "stale")) | st.text(min_size=1), TEXTS),
        _rules, (ValueError,),
    ),
    "command lines": Reader(st.lists(WORDS, max_size=6), _command_line, (SystemExit,)),
    "addresses": Reader(
        st.fixed_dictionaries(dict.fromkeys(("listener", "advertise", "config", "listeners", "control"),
        ADDRESSES)), _serve_flags, (),
    ),
}  # fmt: skip
"""The readers by name. The reader of journals raises ValueError with a message about the journal."""


class Unfit(AssertionError):
    """Raised if a reader raises an unexpected error, gives no message, or takes too long."""


def check(name: str, given_: Given) -> None:
    """Calls the reader with this input. Raises Unfit."""
    reader = READERS[name]
    begun = time.process_time()
    try:
        reader.read(given_)
    except reader.errors as said:
        plain = type(said) is not ValueError or not isinstance(said, UnicodeError | json.JSONDecodeError)
        if not str(said).strip() or not plain:  # a UnicodeError or JSONDecodeError is not a message about the file
            raise Unfit(f"{name}: {type(said).__name__} says {said!s:.200}") from said
    except Exception as error:
        raise Unfit(f"{name}: {type(error).__name__}: {error!s:.200}") from error
    took = time.process_time() - begun
    if took > LONGEST:
        raise Unfit(f"{name}: reading took {took:.1f} s of CPU")


def run(name: str, number: int, examples: int) -> None:
    """Calls the reader with `examples` inputs from the seed `number`. Hypothesis reduces a failing input. Raises Unfit."""

    @seed(number)
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink), report_multiple_bugs=True,
    )  # fmt: skip
    @given(READERS[name].inputs)
    def reads(given_: Given) -> None:
        check(name, given_)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)  # inputs are long on purpose
        reads()
