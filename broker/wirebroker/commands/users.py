"""The users of `serve` and their passwords: from flags, from variables of the environment, and from a file.

Every user of a machine can see the flags of a process (`ps`). But only the process's owner can see its variables, and only a
protected file's owner can read the file.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from wirebroker.commands.usage import UsageError

logger = logging.getLogger("wirebroker")

ENVIRONMENT = "@env:"
"""The prefix of a password that is read from the environment. The name of the variable follows the prefix."""


def users_of(flags: Iterable[str], file: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the passwords by the users' names. Flags have precedence over the file.

    Raises UsageError with a message that contains no password.
    """
    found = dict(_in_file(Path(file))) if file is not None else {}
    for text in flags:
        name, password = _user(text, f"--user {text.partition(':')[0]}")
        if password.startswith(ENVIRONMENT):
            variable = password.removeprefix(ENVIRONMENT)
            if not environment.get(variable):
                raise UsageError(f"--user {name}: the environment variable {variable} is not set")
            password = environment[variable]
        found[name] = password
    return found


def _in_file(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the lines NAME:PASSWORD of a file. Empty lines and lines that begin with # are ignored."""
    flag = f"--users-file {path}"
    try:
        text, mode = path.read_text(encoding="utf-8-sig"), path.stat().st_mode
    except UnicodeDecodeError:
        raise UsageError(f"{flag}: this is not text in UTF-8") from None
    except OSError as refused:
        raise UsageError(f"{flag}: {refused.strerror}") from None
    if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
        logger.warning("%s: other users of this machine can read the file; `chmod 600` prevents this", flag)
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield _user(line, f"{flag}, line {number}")


def _user(text: str, where: str) -> tuple[str, str]:
    name, colon, password = text.partition(":")
    if not (name and colon and password):
        raise UsageError(f"{where}: this is not NAME:PASSWORD")
    return name, password
