"""A campaign: a table of cases, and workers that play them. The results are JSON lines, so that an interrupted campaign can
continue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict
from zlib import crc32

import msgspec

from wirebroker.commands.arguments import write_output
from wirebroker.common.complaints import Complaint
from wirebroker_tools.campaign.workers import Workers

Case = Mapping[str, Any]
"""Plain data. `id` identifies the case; a case has the same id in each campaign with the same table."""
Result = dict[str, Any]
"""Plain data, with the `id` of its case. `files` has texts by file name; each text becomes a file in the folder of the
results."""


class Identified(TypedDict):
    """The fields that every result has."""

    id: str


class DamagedResults(Complaint):
    """Raised if a file of results cannot be read."""


class Results:
    """Results in a file of JSON lines. Each result is written immediately, so that an interrupted campaign loses no result."""

    def __init__(self, path: Path, *, resume: bool = False, shape: type = Identified) -> None:
        """With `resume` earlier results in the file stay if they have this shape; else they are deleted. Raises OSError,
        DamagedResults.
        """
        self.path, self._shape = path, shape
        self.known: dict[str, Result] = {}
        if resume and path.exists():
            self._read(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.known:  # the file is replaced as a whole, because a full disk must not take earlier results away
            write_output(path, "".join(map(_line, self.known.values())))
        self._file = path.open("a" if self.known else "w", encoding="utf-8", buffering=1)

    def _read(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                result = json.loads(line) if line else None
            except (ValueError, RecursionError):
                if number < len(lines):
                    raise DamagedResults(f"{path}:{number}: this line is not JSON") from None
                return  # the last line of an interrupted campaign
            if result is not None:
                try:
                    msgspec.convert(result, self._shape)
                except ValueError as wrong:
                    raise DamagedResults(f"{path}:{number}: this line is not a result of a case: {wrong}") from None
                self.known[result["id"]] = result

    def add(self, result: Result) -> None:
        """Write a result and its files. Readers of the file use this result instead of an earlier result with the same id.
        Raises OSError."""
        for name, text in result.pop("files", {}).items():
            path = self.path.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_output(path, text)
        self.known[result["id"]] = result
        try:
            self._file.write(_line(result))
        except OSError as refused:
            raise OSError(refused.errno, refused.strerror, str(self.path)) from None

    def write_parquet(self) -> Path:
        """Write the results as a table, for Spark and similar tools. Nested values are JSON. Needs pyarrow."""
        rows = [{name: _cell(value) for name, value in result.items()} for result in self.known.values()]
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
        path = self.path.with_suffix(".parquet")
        import_module("pyarrow.parquet").write_table(import_module("pyarrow").table(columns), path)
        return path

    def close(self) -> None:
        with suppress(OSError):  # the rest of a line that could not be written
            self._file.close()


def _line(result: Result) -> str:
    return json.dumps(result) + "\n"


def play_all(
    cases: Iterable[Case], play: Callable[[Case], Result], results: Results, players: Workers, *, go_on: Callable[[], bool],
) -> Iterator[Result]:  # fmt: skip
    """Play the cases that have no result yet. Yields each result as soon as it is known, including the results of earlier
    campaigns.

    Once `go_on` is false, no further case begins, and the running cases are completed. If a case raises an exception, or the
    campaign is interrupted, the running cases are abandoned.
    """
    running: set[Future[Result]] = set()
    try:
        for case in cases:
            if case["id"] in results.known:
                yield results.known[case["id"]]
                continue
            if not go_on():
                break
            running.add(players.executor.submit(play, case))
            if len(running) >= players.width():
                yield from _ended(running, results)
        while running:
            yield from _ended(running, results)
    except BaseException:
        players.abandon()
        raise


def _ended(running: set[Future[Result]], results: Results) -> Iterator[Result]:
    """Wait until at least one case has ended."""
    ended = wait(running, return_when=FIRST_COMPLETED).done
    running -= ended
    for future in ended:
        results.add(result := future.result())
        yield result


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value


def in_shard(case: Case, shard: tuple[int, int] | None) -> bool:
    """Tells whether a case belongs to this shard, for example to (1, 3), the first of three shards.

    All machines divide the cases in the same way.
    """
    return shard is None or crc32(case["id"].encode()) % shard[1] == shard[0] - 1
