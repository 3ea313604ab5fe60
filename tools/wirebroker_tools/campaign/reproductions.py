"""Tests that play a case again, in the language of the command. They use the libraries of clients/.

A test loads the faults, leaves room for the call of the code under test, and compares the records with the records of the run
without faults.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

Words = Mapping[str, Any]
OF_GOS_TESTS = "-test."
"""A compiled Go test accepts flags with this prefix."""
MOST_RECORDS = 20
"""A test compares at most this many records of a topic."""
NEEDED = {
    "error": ("code",), "cut": ("bytes",), "corrupt": ("bytes",), "throttle": ("ms",), "delay": ("ms",), "advance": ("ms",),
    "upgrade": ("to",), "fence": ("transactional_id",), "expire_transactional_id": ("transactional_id",),
    "truncate": ("topic", "partition", "offset"),
}  # fmt: skip
"""For each kind of fault, the words that the functions of the libraries take as arguments."""
CHOOSING = ("api", "topic", "partition", "client_id", "transactional_id", "nth", "times")
"""The words for which the libraries have a method or a field."""


class Reproduction(NamedTuple):
    """The case that a test plays again, and the records to compare."""

    headline: str
    name: str
    """the name of the test, such as lost-1"""
    command: str
    faults: Sequence[Words]
    brokers: int
    topics: Sequence[str]
    """the topics of the test, in the form of --topic"""
    records: Mapping[str, Sequence[tuple[str | None, str]]]
    """for each topic that is compared, its keys and values"""

    @property
    def call(self) -> str:
        """The comment that asks the user to add a call."""
        return f"Call the code under test here, as `{self.command}` does"

    @property
    def flags(self) -> list[str]:
        """The flags of the broker that the test starts, or none if the default broker suffices."""
        return ["--brokers", str(self.brokers)] if self.brokers > 1 else []


class Language(NamedTuple):
    """A language for which clients/ has a library."""

    programs: frozenset[str]
    file: Callable[[str], str]
    """makes the name of the test's file"""
    test: Callable[[Reproduction], str]


def language_of(command: Sequence[str]) -> Language | None:
    """Returns the language of a command; None stands for Python and for languages without a library."""
    for word in (part for each in command for part in _split(each)):
        name = PurePath(word.replace("\\", "/")).name.lower().removesuffix(".exe").removesuffix(".cmd")
        if re.fullmatch(r"python[\d.]*|pytest|uv", name):
            return None
        for language in LANGUAGES:
            if name in language.programs or (language.test is _go and word.startswith(OF_GOS_TESTS)):
                return language
    return None


def _split(word: str) -> list[str]:
    try:
        return shlex.split(word) if " " in word else [word]
    except ValueError:
        return [word]


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parts(name: str) -> list[str]:
    return re.split(r"[-_]", "advance_clock" if name == "advance" else name)


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in _parts(name))


def _camel(name: str) -> str:
    return name[0] + _pascal(name)[1:]


def _snake(name: str) -> str:
    return "_".join(_parts(name))


def _arguments(words: Words, duration: str) -> list[str]:
    values = {"bytes": 1, **words}
    return [
        duration.format(values[word]) if word == "ms" else _text(values[word]) for word in NEEDED.get(words["kind"], ())
    ]  # fmt: skip


def _others(words: Words) -> dict[str, Any]:
    """Returns the words of a fault that are not arguments of its kind."""
    return {word: value for word, value in words.items() if word != "kind" and word not in NEEDED.get(words["kind"], ())}


# Go

_IN_GO = {"api": "API", "client_id": "ClientID", "transactional_id": "TransactionalID"}


def _go(test: Reproduction) -> str:
    faults = [f"broker.AddFault(t, {_go_fault(words)})" for words in test.faults]
    own = [*test.flags, *(part for topic in test.topics for part in ("--topic", topic))] if test.flags else test.topics
    begin = ", ".join(("t", *map(_text, own)))
    lines = [
        f"// {test.headline}", "package reproduced", "", "import (", '\t"testing"',
        *['\t"time"'] * ("time." in "".join(faults)), "", '\t"wirebrokertest"', ")", "",
        f"func Test{_pascal(test.name)}(t *testing.T) {{",
        f"\tbroker := wirebrokertest.{'Start' if test.flags else 'Reset'}({begin})",
        *(f"\tfault{number} := {fault}" for number, fault in enumerate(faults, 1)), "",
        f"\t// {test.call}: the broker is at broker.Bootstrap.", "",
        *(f"\tfault{number}.AssertFired(t)" for number in range(1, len(faults) + 1)),
    ]  # fmt: skip
    for topic, records in test.records.items():
        lines.append(f"\tbroker.AssertRecords(t, {_text(topic)},")
        for key, value in records:
            shown = "wirebrokertest.Null" if key is None else _text(key)
            lines.append(f"\t\twirebrokertest.Record{{Key: {shown}, Value: {_text(value)}}},")
        lines.append("\t)")
    return "\n".join([*lines, "}", ""])


def _go_fault(words: Words) -> str:
    others, kind = _others(words), words["kind"]
    arguments = _arguments(words, "{}*time.Millisecond")
    if kind == "truncate":
        others, arguments = others | {"topic": words["topic"], "partition": words["partition"]}, arguments[2:]
    chosen = {word: others.pop(word) for word in CHOOSING if word in others and word != "partition"}
    on = ", ".join(f"{_IN_GO.get(word, word.capitalize())}: {_text(value)}" for word, value in chosen.items())
    made = f"wirebrokertest.{_pascal(kind).replace('Id', 'ID')}({', '.join([*arguments, f'wirebrokertest.On{{{on}}}'])})"
    return made + "".join(f".With({_text(word)}, {_text(value)})" for word, value in others.items())


# JavaScript


def _javascript(test: Reproduction) -> str:
    settings = f"topics: {_text(list(test.topics))}" + (f", options: {_text(test.flags)}" if test.flags else "")
    lines = [
        f"// {test.headline}", 'import { test } from "node:test";', 'import { useBroker } from "wirebroker";', "",
        f"const broker = useBroker({{ {settings} }});", "", f"test({_text(test.name)}, async () => {{",
        *(f"  const fault{number} = await broker.addFault({_javascript_object(words)});"
          for number, words in enumerate(test.faults, 1)),
        "", f"  // {test.call}: the broker is at broker.bootstrap.", "",
        *(f"  await fault{number}.assertFired();" for number in range(1, len(test.faults) + 1)),
    ]  # fmt: skip
    for topic, records in test.records.items():
        lines.append(f"  await broker.assertRecords(\n    {_text(topic)},")
        lines += [f"    {_javascript_object({'key': key, 'value': value})}," for key, value in records]
        lines.append("  );")
    return "\n".join([*lines, "});", ""])


def _javascript_object(words: Words) -> str:
    return f"{{ {', '.join(f'{word}: {_text(value)}' for word, value in words.items())} }}"


# Java and Rust


def _chained(words: Words, fault: str, duration: str, name: Callable[[str], str]) -> str:
    """Returns a fault as a chain of calls."""
    others = _others(words)
    made = f"{fault}{name(words['kind'])}({', '.join(_arguments(words, duration))})"
    for word, value in others.items():
        if word == "after":
            made += ".after()" if value else ""
        else:
            made += f".{name(word)}({_text(value)})" if word in CHOOSING else f".with({_text(word)}, {_text(value)})"
    return made


def _java(test: Reproduction) -> str:
    faults = [_chained(words, "Fault.", "Duration.ofMillis({})", _camel) for words in test.faults]
    listed = [f"topics = {{{', '.join(map(_text, test.topics))}}}"]
    listed += [f"options = {{{', '.join(map(_text, test.flags))}}}"] * bool(test.flags)
    lines = [
        f"// {test.headline}", *["import java.time.Duration;"] * ("Duration." in "".join(faults)),
        "import org.junit.jupiter.api.Test;", "import wirebroker.Broker;", "import wirebroker.Fault;",
        *["import wirebroker.KafkaRecord;"] * bool(test.records), "import wirebroker.Wirebroker;", "",
        f"@Wirebroker({', '.join(listed)})", f"class {_pascal(test.name)}Test {{", "    @Test",
        f"    void {_camel(test.name)}(Broker broker) throws Exception {{",
        *(f"        var fault{number} = broker.addFault({fault});" for number, fault in enumerate(faults, 1)), "",
        f"        // {test.call}: the broker is at broker.bootstrap().", "",
        *(f"        fault{number}.assertFired();" for number in range(1, len(faults) + 1)),
    ]  # fmt: skip
    for topic, records in test.records.items():
        shown = (f"KafkaRecord.of({_text(key)}, {_text(value)})" for key, value in records)
        lines.append(f"        broker.assertRecords({', '.join((_text(topic), *shown))});")
    return "\n".join([*lines, "    }", "}", ""])


def _rust(test: Reproduction) -> str:
    faults = [_chained(words, "Fault::", "Duration::from_millis({})", _snake) for words in test.faults]
    own = [*test.flags, *(part for topic in test.topics for part in ("--topic", topic))] if test.flags else test.topics
    used = ["Fault", *["Record"] * bool(test.records)]
    lines = [
        f"//! {test.headline}", *["use std::time::Duration;"] * ("Duration::" in "".join(faults)),
        f"use wirebroker::{{{', '.join(used)}}};", "", "#[test]", f"fn {_snake(test.name)}() {{",
        f"    let broker = wirebroker::{'start' if test.flags else 'reset'}(&[{', '.join(map(_text, own))}]);",
        *(f"    let fault{number} = broker.add_fault({fault});" for number, fault in enumerate(faults, 1)), "",
        f"    // {test.call}: the broker is at broker.bootstrap.", "",
        *(f"    fault{number}.assert_fired();" for number in range(1, len(faults) + 1)),
    ]  # fmt: skip
    for topic, records in test.records.items():
        shown = (f"Record::new({'wirebroker::NULL' if key is None else _text(key)}, {_text(value)})" for key, value in records)
        lines.append(f"    broker.assert_records({_text(topic)}, &[{', '.join(shown)}]);")
    return "\n".join([*lines, "}", ""])


LANGUAGES = (
    Language(frozenset({"go"}), lambda name: f"{_snake(name)}_test.go", _go),
    Language(
        frozenset({"node", "npm", "npx", "pnpm", "yarn", "bun", "jest", "vitest"}), lambda name: f"{name}.test.mjs", _javascript
    ),
    Language(
        frozenset({"java", "mvn", "mvnw", "gradle", "gradlew", "kotlin", "scala", "sbt"}),
        lambda name: f"{_pascal(name)}Test.java", _java,
    ),
    Language(frozenset({"cargo"}), lambda name: f"{_snake(name)}.rs", _rust),
)  # fmt: skip


def comparable(records: Iterable[tuple[bytes | None, bytes | None]]) -> list[tuple[str | None, str]] | None:
    """Returns keys and values as text. Returns None if a test does not compare these records: there are none, there are too
    many, or a record is not printable text.
    """
    made: list[tuple[str | None, str]] = []
    for key, value in records:
        try:
            texts = None if key is None else key.decode(), (value or b"").decode()
        except UnicodeDecodeError:
            return None
        if value is None or not all(text is None or text.isprintable() for text in texts):
            return None
        made.append(texts)
    return made if 0 < len(made) <= MOST_RECORDS else None
