"""Every flag of every command: which other flags the flag needs, which numbers it takes, and which files it writes."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from wirebroker.commands.arguments import LONGEST_S, Parser, output_file, seconds
from wirebroker.commands.cli import build_parser, main

REQUIRED = {
    "proxy": ["--upstream", "127.0.0.1:1"], "explain": ["x"], "decode": ["x"], "encode": ["x"], "diff": ["x", "y"],
    "replay": ["x", "--bootstrap", "127.0.0.1:1"], "audit": ["--path", "x", "--out", "y"], "explore": ["true"],
    "trace show": ["x"], "scenario show": ["A1"], "scenario run": ["A1"], "releases diff": ["3.9", "4.0"],
}  # fmt: skip
"""The arguments without which a command does not begin."""
ELSEWHERE = ("--sync",)
"""Flags that need another flag, which their help names. MockKafka checks this, but the parser does not."""
VALUES = {
    "--pipeline": "in:a=out:b", "--match": "key", "--control": "0", "--rotate": "1h", "--max-rate": "20m", "--memory": "4g",
    "--width": "800", "--master": "local[2]", "--budget": "10m", "--remote-store": "x",
}  # fmt: skip


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, Parser]]:
    """Yields every command without subcommands, and its parser."""
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for action in below:
        for word, inner in action.choices.items():
            yield from commands(inner, f"{name} {word}".strip())
    if not below:
        assert isinstance(parser, Parser)
        yield name, parser


def flags(parser: Parser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings and action.dest != "help"]


def sample(action: argparse.Action) -> list[str]:
    """Returns a flag with a value that it accepts."""
    flag = action.option_strings[0]
    if action.nargs == 0:
        return [flag]
    value = VALUES.get(flag) or (str(next(iter(action.choices))) if action.choices else "5")
    return [flag, value]


def beside(parser: Parser, flag: str) -> list[str]:
    """Returns the flags that a flag needs, directly or through another flag. Each of them has a value."""
    known = {action.option_strings[0]: action for action in flags(parser)}
    partners = parser.partners.get(flag, [])[:1]
    return [word for partner in partners for word in (*sample(known[partner]), *beside(parser, partner))]


COMMANDS = dict(commands(build_parser()))
NUMBERS = {
    (name, action.option_strings[0]): action
    for name, parser in COMMANDS.items()
    for action in flags(parser)
    if action.type is seconds or getattr(action.type, "__qualname__", "").startswith("whole_number.")
}


def told(name: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the sentence with which the command refuses the arguments, or "" if the command accepts them."""
    words = name.split()
    try:
        build_parser().parse_args([*words, *REQUIRED.get(name, []), *arguments])
    except SystemExit:
        sentence = capsys.readouterr().err
        assert sentence.count("\n") == 1, sentence
        return sentence
    return ""


def test_every_command_says_what_it_does() -> None:
    parsers = [*COMMANDS.values(), build_parser()]
    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            parsers += action.choices.values()
    assert [parser.prog for parser in parsers if not parser.description] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_flag_that_does_nothing_alone_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = COMMANDS[name]
    known = {action.option_strings[0]: action for action in flags(parser)}
    for action in known.values():
        flag = action.option_strings[0]
        refused = told(name, sample(action), capsys)
        partners = parser.partners.get(flag)
        named = (
            set()
            if flag in ELSEWHERE
            else set(re.findall(r"^with (--[a-z-]+)", action.help or "")) - set(REQUIRED.get(name, []))
        )
        assert not named or (partners and named <= set(partners)), f"{flag}: its help names {named}"
        if partners is None or set(partners) & set(REQUIRED.get(name, [])):
            assert "does nothing without" not in refused
            continue
        assert refused.startswith(f"wirebroker {name}: {flag} does nothing without {' or '.join(partners)} ("), refused
        for partner in partners:
            given = [*sample(action), *sample(known[partner]), *beside(parser, partner)]
            assert "does nothing" not in told(name, given, capsys)


def test_a_variable_that_does_nothing_alone_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WIREBROKER_TRACE_LEVEL", "all")
    assert told("serve", [], capsys).startswith("wirebroker serve: WIREBROKER_TRACE_LEVEL does nothing without --trace or ")
    monkeypatch.setenv("WIREBROKER_CONTROL", "0")
    assert told("serve", [], capsys) == ""


@pytest.mark.parametrize("flag", ["--topic=x", "--picture=sequence", "--timeline", "--follow", "--where=x"])
def test_a_page_shows_the_whole_file(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told("trace show", ["--page", flag], capsys).startswith(
        f"wirebroker trace show: {flag.partition('=')[0]} does nothing with"
    )


def test_every_flag_with_a_number_has_a_range() -> None:
    loose = [
        (name, action.option_strings[0])
        for name, parser in COMMANDS.items()
        for action in flags(parser)
        if action.metavar in ("N", "S", "MS", "PX", "ID")
        and (name, action.option_strings[0]) not in NUMBERS
        and action.dest not in ("transaction", "group", "client")
    ]
    assert loose == []
    assert not [action for parser in COMMANDS.values() for action in flags(parser) if action.type in (int, float)]


@pytest.mark.parametrize(("name", "flag"), NUMBERS)
@pytest.mark.parametrize(
    "value", ["-1", "0", "1", "1" + "0" * 30, "9" * 5000, "1e400", "nan", "inf", "-inf", "five", "", "0x10", "1.5"]
)
def test_a_number_out_of_range_is_refused_with_the_range(
    name: str, flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = told(name, [f"{flag}={value}", *beside(COMMANDS[name], flag)], capsys)
    if refused:
        assert re.match(rf"wirebroker {name}: argument {flag}: .*(expected a|is not a whole number|is not one of)", refused)
    if value in ("1" + "0" * 30, "9" * 5000, "1e400", "nan", "inf", "-inf", "five", "", "0x10"):
        assert refused
    if NUMBERS[name, flag].type is seconds:
        assert bool(refused) == (value not in ("1", "1.5"))


def test_the_longest_time_can_be_waited_for() -> None:
    assert seconds(str(LONGEST_S)) == LONGEST_S
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(str(LONGEST_S + 1))


def test_a_health_check_with_a_bad_timeout_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["health", "--bootstrap", "127.0.0.1:1", "--timeout", "-1"])
    assert "argument --timeout: expected a number of seconds above 0" in capsys.readouterr().err


WRITTEN = [
    (name, action.option_strings[0])
    for name, parser in COMMANDS.items()
    for action in flags(parser)
    if action.type is output_file
]


@pytest.mark.parametrize(("name", "flag"), WRITTEN)
def test_a_file_that_cannot_be_written_is_named_before_the_work_begins(
    name: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for path, problem in (
        (tmp_path / "none" / "x", f"there is no folder {tmp_path / 'none'}"), (tmp_path, "is a folder"),
        (tmp_path / "file" / "x", f"there is no folder {tmp_path / 'file'}"), ("", "the value is empty"),
    ):  # fmt: skip
        refused = told(name, [flag, str(path), *beside(COMMANDS[name], flag)], capsys)
        assert refused.startswith(f"wirebroker {name}: argument {flag}: ")
        assert problem in refused


def test_a_file_without_the_right_to_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(tmp_path))
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be written: permission denied"):
        output_file(str(tmp_path / "x"))
