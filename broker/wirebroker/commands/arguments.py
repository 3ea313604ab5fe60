"""An argparse parser whose errors are one sentence, which names the mistake, the word that was probably meant, and the help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from wirebroker.common.suggestions import did_you_mean


class Parser(argparse.ArgumentParser):
    """The parser of one command, or of all commands. Subparsers also belong to this class."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and end the program with exit code 2. argparse's own usage text has many lines and would hide the
        sentence."""
        listed = "commands" if self._commands() else "flags"
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` lists the {listed})\n")

    def parse_known_args(  # type: ignore[override]  # argparse's overloads are about namespaces of other classes
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Like argparse's method, but the parser of a command refuses unknown arguments itself, so that the error names the
        command.
        """
        if args is not None and not self._commands():
            self._refuse_unknown_flags(args)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown and not self._commands():
            self.error(f"there is nothing that {' '.join(unknown)!r} could be")
        return parsed, unknown

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


def whole_number(text: str) -> int:
    """The type of a flag that takes a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
