"""The levels of a broker's loggers, as clients see and change them (KIP-412).

The loggers have the names that Kafka 4.3.1 or 4.4.0 shows after the creation of its first topic. In loggers.txt each line has a
logger's name and its own level. The level is `-` or missing if the logger has no level of its own. "4.4" or "before-4.4" at the
end of a line means that only these releases have the logger. Loggers that share a bucket of Java's HashMap have Kafka's order.
The loggers have the levels of Kafka's log4j2.yaml. This broker has no log4j, so the levels have no effect on its log. A logger
keeps a level until the broker restarts, and child loggers inherit the level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from kafkawire.errors import ErrorCode
from wirebroker.core.java_order import buckets_for, hash_order, java_hash
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since

HAS_QUORUM_LOGGERS = since("3.3", "brokers have the loggers of the quorum's controller", "KIP-833")
HAS_MOVED_LOGGERS = since("4.4", "some of the brokers' loggers have other names")
TELLS_INHERITED_LEVELS = since(
    "2.8", "DescribeConfigs shows the level that a logger inherits from its parent, not the root logger's level", "KAFKA-10469"
)
STRICT_LOGGERS = since("3.3", "unknown loggers and levels are refused with error 40 instead of 42", "KIP-833")

ROOT = "root"
OF_THE_QUORUM = tuple(f"org.apache.kafka.{each}" for each in ("controller", "image", "metadata", "raft"))
SINCE_4_4, BEFORE_4_4 = "4.4", "before-4.4"
"""The marks at the end of a line of loggers.txt. A line with a mark is a logger that only some releases have."""
LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


class Loggers:
    """The loggers of one broker (RuntimeLoggerManager, Log4jCoreController)."""

    def __init__(self) -> None:
        self._altered: dict[str, str] = {}
        """The levels that clients have set, by logger; "" if a client has removed the logger's own level."""

    def levels(self, release: Release) -> Iterator[tuple[str, str]]:
        """Returns each logger of the release with its effective level, in the order of Kafka's HashMap."""
        shown = [name for name in _names() if _exists(name, release)]
        return ((name, self._level(name, release)) for name in hash_order(shown, java_hash, buckets_for(len(shown))))

    def _level(self, name: str, release: Release) -> str:
        while not (own := self._altered.get(name, _names().get(name, ("", ""))[0])):
            name = (TELLS_INHERITED_LEVELS.of(release) and name.rpartition(".")[0]) or ROOT
        return own

    def refusal(self, name: str, level: str | None, release: Release, *, removes: bool) -> Refusal | None:
        """Returns a refusal if the logger's level cannot be set to `level`, else None. With `removes`, returns a refusal if the
        logger's own level cannot be removed, else None."""
        unknown = ErrorCode.INVALID_CONFIG if STRICT_LOGGERS.of(release) else ErrorCode.INVALID_REQUEST
        if not _exists(name, release):
            return Refusal(unknown, f"Logger {name} does not exist!")
        if removes:
            message = "Removing the log level of the root logger is not allowed"
            return Refusal(ErrorCode.INVALID_REQUEST, message) if name == ROOT else None
        if level in LEVELS:
            return None
        wrong = f"Cannot set the log level of {name} to {level} as it is not a supported log level."
        return Refusal(unknown, f"{wrong} Valid log levels are {', '.join(LEVELS)}")

    def alter(self, changes: Iterable[tuple[str, str | None]], release: Release) -> None:
        """Set the levels of loggers. A level of None makes the logger inherit the level of its parent.

        If a logger inherits its level, and a client sets the same level, the logger continues to inherit the level, as with
        log4j's Configurator.
        """
        for name, level in changes:
            if level is None or self._altered.get(name) != "" or level != self._level(name, release):
                self._altered[name] = level or ""


def _exists(name: str, release: Release) -> bool:
    if name not in _names() or not (HAS_QUORUM_LOGGERS.of(release) or not name.startswith(OF_THE_QUORUM)):
        return False
    return _names()[name][1] != (BEFORE_4_4 if HAS_MOVED_LOGGERS.of(release) else SINCE_4_4)


@cache
def _names() -> dict[str, tuple[str, str]]:
    """Returns two texts for every logger: its own level, and the mark of the releases that have the logger. For most loggers,
    both texts are ""."""
    lines = Path(__file__).with_name("loggers.txt").read_text(encoding="utf-8").splitlines()
    rows = ([*line.split(), "", ""] for line in lines)
    return {name: (level.strip("-"), releases) for name, level, releases, *_ in rows}
