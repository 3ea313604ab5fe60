"""Measures the gain from compiled modules in the simulator, the fuzzers, the conformance replay and the audit.

Each load runs in a separate process, alternately with and without this checkout's compiled modules. The CPU time of a process
counts from the end of its imports. Each ratio compares two runs of one round. The audit's log has batches of 200 bytes.

    gains.py LOAD FOLDER     one load, with the caller's Python and sources; prints its parts and seconds of CPU
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from statistics import median

if __name__ != "__main__":
    from bench import report
    from bench.beside import environment, without_compiled
    from bench.contenders import ROOT
    from bench.process import Missing
    from bench.real import is_compiled

BATCHES = 400_000
VALUE = 110
"""The size of a record's value in bytes; a batch with one such record has 200 bytes."""
SCHEDULES, CASES, EVERY = 100, 40, 6
PURE, COMPILED = "Python", "compiled"

Seconds = dict[str, dict[str, list[float]]]
"""The CPU seconds of each load in each form, one figure for each round."""


def measure(only: Sequence[str], rounds: int, say: Callable[[str], None]) -> Seconds | Missing:
    """In each round, plays the loads whose names begin with a word of `only`; plays all loads if `only` is empty. Raises
    RuntimeError if a load fails.
    """
    if not is_compiled():
        return Missing("compiled modules", "this checkout is not compiled; `scripts/compile` does that")
    found: Seconds = {name: {PURE: [], COMPILED: []} for name in LOADS if not only or name.startswith(tuple(only))}
    with tempfile.TemporaryDirectory(prefix="wirebroker-bench-") as folder:
        write_log(Path(folder, "log"))
        checkouts = {PURE: without_compiled(Path(folder, "pure")), COMPILED: ROOT}
        for number in range(rounds):
            for name, times in found.items():
                say(f"round {number + 1} of {rounds}: {name}")
                for form, checkout in checkouts.items():
                    times[form].append(_one(name, checkout, folder))
    return found


def _one(name: str, checkout: Path, folder: str) -> float:
    command = [*environment(checkout, ROOT / "tests", ROOT), sys.executable, __file__, name, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr.strip()[-300:]}")
    return float(done.stdout)


def write_log(folder: Path) -> None:
    """Writes a log for the audit, as scripts/bench-audit does."""
    loader = SourceFileLoader("bench_audit", str(Path(__file__).parent.parent / "scripts" / "bench-audit"))
    script = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(script)
    script.write_log(folder / "orders-0", BATCHES, VALUE)


# Each load imports its modules, warms up if necessary, yields, and then does the measured work


def simulate(_: Path) -> Iterator[None]:
    """Play schedules of model clients."""
    from simulation.schedule import Schedule

    yield
    for seed in range(SCHEDULES):
        Schedule(seed).run()


def fuzz(_: Path) -> Iterator[None]:
    """Play sessions of made-up requests."""
    from fuzzing.cases import Case

    yield
    for seed in range(CASES):
        Case(seed).run()


def conform(_: Path) -> Iterator[None]:
    """Replay some of the recorded dialogues."""
    from wirebroker_tools.commands.conformance import run_all
    from wirebroker_tools.conformance.recording import load

    scenarios = load()[::EVERY]
    yield
    if run_all(scenarios).differing:
        raise RuntimeError("a dialogue differs from Kafka's")


def scan(folder: Path) -> Iterator[None]:
    """Read the headers of a log, with checksums."""
    from wirebroker_audit.logs.planning import find_pieces
    from wirebroker_audit.reading.reader import read_piece

    for _ in "warm", "counted":
        for piece in find_pieces(folder / "log"):
            for _ in read_piece(piece):
                pass
        yield


def fold(folder: Path) -> Iterator[None]:
    """Read the headers of a log, and fold the batches to runs."""
    from wirebroker_audit.folding.runs import folded
    from wirebroker_audit.logs.planning import find_pieces
    from wirebroker_audit.reading.reader import read_piece

    for _ in "warm", "counted":
        for _ in folded(chunk.rows for piece in find_pieces(folder / "log") for chunk in read_piece(piece)):
            pass
        yield


SCAN, FOLD = f"audit: header scan of {BATCHES:,} batches", "audit: the same, folded to runs"
LOADS: dict[str, Callable[[Path], Iterator[None]]] = {
    f"simulator, {SCHEDULES} schedules": simulate, f"fuzzer of requests, {CASES} sessions": fuzz,
    f"replay of each {EVERY}th recorded dialogue": conform, SCAN: scan, FOLD: fold,
}  # fmt: skip


def text(found: Seconds) -> str:
    """Returns the table of the loads."""
    rows = []
    for name, times in found.items():
        pure, compiled = median(times[PURE]), median(times[COMPILED])
        ratios = [mine / other for mine, other in zip(times[COMPILED], times[PURE], strict=True)]
        rates = [f"{BATCHES / each / 1e6:.2f}" for each in (pure, compiled)] if name in (SCAN, FOLD) else ["", ""]
        rows.append([name, f"{pure:.2f}", f"{compiled:.2f}", f"{median(ratios):.2f}", *rates])
    return report.table(["seconds of CPU", PURE, COMPILED, "×", "M batches/s", COMPILED], rows)


def main(arguments: Sequence[str]) -> None:
    """Prepare a load, run it, and print its CPU seconds."""
    name, folder = arguments
    load = LOADS[name](Path(folder))
    next(load)
    begun = time.process_time()
    next(load, None)
    print(time.process_time() - begun)


if __name__ == "__main__":
    main(sys.argv[1:])
