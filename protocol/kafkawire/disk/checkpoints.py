"""Checkpoint files: a version, a count, and lines (Kafka's CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kafkawire.checksums import crc32c
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.opening import read_text

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

Offsets = dict[tuple[str, int], int]
"""An offset for each topic and partition."""
_SIGNATURE = "__crc32c", 0
LARGEST_INT32, LARGEST_INT64 = 2**31 - 1, 2**63 - 1


class Checkpoint(NamedTuple):
    """The content of a checkpoint. `signed` tells whether the file has a CRC, which `read_offsets` has checked already. Only
    files that this package wrote have a CRC."""

    offsets: Offsets
    signed: bool


def read_offsets(path: Path) -> Checkpoint:
    """Returns the offsets in a checkpoint. If the file is missing or empty, there are no offsets. Raises DamagedFile."""
    offsets: Offsets = {}
    lines = []
    for number, line in _lines(path):
        topic, _, rest = line.partition(" ")
        index, _, offset = rest.partition(" ")
        try:
            offsets[topic, _number(index, LARGEST_INT32)] = _number(offset, LARGEST_INT64)
        except ValueError:
            raise DamagedFile(path, f"line {number} is not 'topic partition offset' but {line!r}") from None
        lines.append(line)
    signature = offsets.pop(_SIGNATURE, None)
    if signature is not None and signature != _crc_of([path.name, *lines[:-1]]):
        raise DamagedFile(
            path,
            f"the CRC in line {len(lines) + 2} does not match the lines before it. Restore the file from a copy; or "
            "correct the lines, remove the line with the CRC, and lower the count in line 2 by one",
        )
    return Checkpoint(offsets, signature is not None)


def offsets_text(name: str, offsets: Mapping[tuple[str, int], int]) -> str:
    """Returns the offsets as the text of the checkpoint with this file name.

    Kafka's format has no CRC. So the file has one more entry, for a topic that does not exist: the offset in this entry is the
    CRC of the file's name and lines. Kafka skips the entry.
    """
    lines = [f"{topic} {index} {offset}" for (topic, index), offset in offsets.items()]
    topic, index = _SIGNATURE
    return _file([*lines, f"{topic} {index} {_crc_of([name, *lines])}"])


def _crc_of(lines: Iterable[str]) -> int:
    return crc32c("\n".join(lines).encode())


def read_epochs(path: Path) -> list[tuple[int, int]]:
    """Returns the leader epochs, each with its first offset. If there is no file, returns an empty list. Raises DamagedFile."""
    epochs = []
    lines = list(_lines(path))
    texts = [text for _, text in lines]
    if texts and texts[-1] != (last := texts[-1].rstrip()) and texts[-1] != _signed([*texts[:-1], last])[-1]:
        why = "the CRC in the blanks at its end does not match its lines"
        raise DamagedFile(path, f"{why}. Restore the file from a copy; or correct the lines, and remove the blanks")
    for number, line in lines:
        epoch, _, start = line.partition(" ")
        try:
            epochs.append((_number(epoch, LARGEST_INT32), _number(start, LARGEST_INT64)))
        except ValueError:
            raise DamagedFile(path, f"line {number} is not 'epoch offset' but {line!r}") from None
    return epochs


def epochs_text(epochs: Iterable[tuple[int, int]]) -> str:
    """Returns the leader epochs as a checkpoint.

    Kafka's format has no CRC. So the bits of a CRC are written as blanks and tabs at the end of the last line. Kafka skips the
    blanks and tabs.
    """
    return _file(_signed([f"{epoch} {start}" for epoch, start in epochs]))


def _signed(lines: list[str]) -> list[str]:
    bits = f"{_crc_of(lines):032b}".translate({ord("0"): " ", ord("1"): "\t"})
    return [*lines[:-1], lines[-1] + bits] if lines else lines


def clean_shutdown_text() -> str:
    """Returns the content of the file that Kafka writes after it has closed all logs. While the file exists, no log needs
    recovery."""
    return '{"version":0,"brokerEpoch":-1}'


def _file(lines: Iterable[str]) -> str:
    made = list(lines)
    return "\n".join(["0", str(len(made)), *made]) + "\n"


def _number(text: str, largest: int) -> int:
    """Returns the text as a number, at most `largest`. Raises ValueError."""
    number = int(text)
    if not -1 <= number <= largest:
        raise ValueError(text)
    return number


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    try:
        if not (text := read_text(path)):
            return ()  # a power failure leaves an empty file; Kafka accepts it, too
        version, count, *lines = text.splitlines()
    except FileNotFoundError:
        return ()
    except ValueError:
        raise DamagedFile(path, "this is not a checkpoint, which begins with a version and a count") from None
    if not text.endswith("\n"):
        raise DamagedFile(path, "the end of the checkpoint is missing")
    if version != "0" or count != str(len(lines)):
        raise DamagedFile(path, f"the checkpoint has version {version!r}, announces {count} lines and has {len(lines)}")
    return enumerate(lines, 3)
