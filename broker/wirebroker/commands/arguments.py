"""An argparse parser whose error message is one sentence. The sentence names the mistake, the word that the user probably
meant, and the command for help."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from wirebroker.common.suggestions import did_you_mean


class Parser(argparse.ArgumentParser):
    """The parser of one command, or of all commands. Subparsers also belong to this class."""

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        self.partners: dict[str, list[str]] = {}
        """The partners of each flag that has no effect alone. The flag has an effect if one of its partners is given, too."""
        self.loners: dict[str, set[str]] = {}
        """For each flag that excludes most other flags: the flags that may be given together with it."""

    def needs(self, partners: str, *flags: str) -> None:
        """Each of `flags` needs one of the partners. If a flag or its environment variable is given without a partner, refuse
        it."""
        self.partners |= dict.fromkeys(flags, partners.split())

    def alone(self, flag: str, *allowed: str) -> None:
        """If this flag is given, refuse every other flag except the allowed flags."""
        self.loners[flag] = {flag, *allowed}

    def describe(self) -> None:
        """If a command has no description, use its line in the list of commands."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                told = {each.dest: each.help for each in action._choices_actions}
                for name, parser in action.choices.items():
                    if parser.description is None and (line := told.get(name)):
                        parser.description = f"{line[0].upper()}{line[1:]}."
                    parser.describe()

    def error(self, message: str) -> NoReturn:
        """Print the sentence and end the program with exit code 2. argparse's own usage text has many lines and would hide the
        sentence."""
        listed = "commands" if self._commands() else "flags"
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` lists the {listed})\n")

    def parse_known_args(  # type: ignore[override]  # argparse's overloads are about namespaces of other classes
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Like argparse's method, except that a command's parser refuses unknown arguments itself. So the error names the
        command."""
        if args is not None and not self._commands():
            self._refuse_unknown_flags(args)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown and not self._commands():
            self.error(f"the command takes no argument {' '.join(unknown)!r}")
        if self.partners:
            self._refuse_lonely_flags(sys.argv[1:] if args is None else args, parsed)
        return parsed, unknown

    def _refuse_lonely_flags(self, args: Sequence[str], parsed: argparse.Namespace) -> None:
        given = {flag: flag for arg in takewhile("--".__ne__, args) for flag in self._flags(arg.partition("=")[0])}
        mirrored = getattr(parsed, "mirrored", {})
        given |= {f"--{dest.replace('_', '-')}": f"WIREBROKER_{dest.upper()}" for dest, value in mirrored.items() if value}
        for flag, partners in self.partners.items():
            if flag in given and not given.keys() & set(partners):
                self.error(f"{given[flag]} does nothing without {' or '.join(partners)}")
        for flag, allowed in self.loners.items():
            if flag in given and (others := sorted(given.keys() - allowed)):
                self.error(f"{given[others[0]]} does nothing with {flag}")

    def _flags(self, arg: str) -> Iterable[str]:
        """Returns the flags that match an argument. The argument may be the beginning of a flag."""
        actions = [
            each for each in self._actions if any(arg.startswith("--") and flag.startswith(arg) for flag in each.option_strings)
        ]
        exact = [each for each in actions if arg in each.option_strings]
        return [each.option_strings[0] for each in exact or actions]

    def _commands(self) -> bool:
        return self._subparsers is not None

    def _refuse_unknown_flags(self, args: Sequence[str]) -> None:
        known = [flag for action in self._actions for flag in action.option_strings]
        for arg in args:
            if arg == "--":
                return
            flag = arg.partition("=")[0]
            if flag.startswith("--") and not any(each.startswith(flag) for each in known):
                self.error(f"there is no flag {flag}{did_you_mean(flag, known, 0.6)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        names = [str(each) for each in action.choices]
        advice = did_you_mean(str(value), names) or f"; there are {', '.join(names)}"
        if action.option_strings:
            raise argparse.ArgumentError(action, f"{value!r} is not one of {', '.join(names)}{did_you_mean(str(value), names)}")
        raise argparse.ArgumentError(None, f"there is no command {value!r}{advice}")


NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a file that has no space to grow."""
LONGEST_S = 366 * 86400
"""The largest number of seconds that a flag accepts: a year."""


def whole_number(least: int | None, most: int) -> Callable[[str], int]:
    """Returns the type of a flag that takes a whole number in this range. Without `least`, the command itself checks the
    smallest number."""
    limits = f"up to {most}" if least is None else f"from {least} to {most}"

    def number(text: str) -> int:
        try:
            found = int(text) if len(text) < 20 else None
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if found is None or not (found if least is None else least) <= found <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number {limits}, not {text!r}")
        return found

    return number


def seconds(text: str) -> float:
    """The type of a flag that takes a number of seconds."""
    try:
        found = float(text)
    except ValueError:
        found = inf
    if not 0 < found <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0 and at most {LONGEST_S}, not {text!r}")
    return found


def output_file(text: str) -> str:
    """The type of a flag that names a file to write. A file that cannot be written is refused before the work begins."""
    path = Path(text)
    problem = "the value is empty" if not text.strip() else f"{text} is a folder" if path.is_dir() else ""
    if not problem and not path.parent.is_dir():
        problem = f"{text} cannot be written: there is no folder {path.parent}"
    if not problem and not os.access(path if path.exists() else path.parent, os.W_OK):
        problem = f"{text} cannot be written: permission denied"
    if problem:
        raise argparse.ArgumentTypeError(problem)
    return text


def write_output(path: str | Path, content: str | bytes) -> None:
    """Write the content to a file. An earlier file is replaced only when the new content is complete. Raises an OSError that
    names the file, for example if the disk is full.
    """
    try:
        _fill(Path(path), content.encode() if isinstance(content, str) else content)
    except OSError as refused:
        raise OSError(refused.errno, refused.strerror, str(path)) from None


def _fill(path: Path, content: bytes) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):  # a device or a pipe must stay what it is
        path.write_bytes(content)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    except OSError as refused:
        with suppress(OSError):
            beside.unlink()
        if refused.errno in NO_SPACE:
            raise
        path.write_bytes(content)  # the folder may allow no other file, for example where a container mounts a single file


class Unread(suppress):
    """In this context a command prints the result that decides its exit code. The exit code is right although nobody reads the
    output, as in `… | head`.
    """

    def __init__(self) -> None:
        super().__init__(BrokenPipeError)


def is_of_output(failure: OSError) -> bool:
    """Tells whether standard output could not be written. Commands that also read files must not blame a file for this."""
    return failure.filename is None and failure.errno in (errno.EPIPE, *NO_SPACE)
