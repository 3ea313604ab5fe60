"""A campaign: a table of cases, and workers that play them. The results are JSON lines, so that an interrupted campaign can
continue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

from wirebroker_tools.campaign.workers import Workers

Case = Mapping[str, Any]
"""Plain data. `id` identifies the case; a case has the same id in each campaign with the same table."""
Result = dict[str, Any]
"""Plain data, with the `id` of its case. `files` has texts by file name; each text becomes a file in the folder of the
results."""


class DamagedResults(ValueError):
    """Raised if a file of results cannot be read."""


class Results:
    """Results in a file of JSON lines. Each result is written immediately, so that an interrupted campaign loses no result."""

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        """With `resume` earlier results in the file stay; else they are deleted. Raises OSError, DamagedResults."""
        self.path = path
        self.known: dict[str, Result] = {}
        if resume and path.exists():
            self._read(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", buffering=1)
        for result in self.known.values():
            self._write(result)

    def _read(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines, 1):
            try:
                result = json.loads(line) if line else None
            except ValueError:
                if number < len(lines):
                    raise DamagedResults(f"{path}:{number}: this line is not JSON") from None
                return  # the last line of an interrupted campaign
            if result is not None:
                self.known[result["id"]] = result

    def _write(self, result: Result) -> None:
        self._file.write(json.dumps(result) + "\n")

    def add(self, result: Result) -> None:
        """Write a result and its files. Readers of the file use this result instead of an earlier result with the same id.
        Raises OSError."""
        for name, text in result.pop("files", {}).items():
            path = self.path.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.known[result["id"]] = result
        self._write(result)

    def write_parquet(self) -> Path:
        """Write the results as a table, for Spark and similar tools. Nested values are JSON. Needs pyarrow."""
        rows = [{name: _cell(value) for name, value in result.items()} for result in self.known.values()]
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
        path = self.path.with_suffix(".parquet")
        import_module("pyarrow.parquet").write_table(import_module("pyarrow").table(columns), path)
        return path

    def close(self) -> None:
        self._file.close()


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
