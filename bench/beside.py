"""Measures this checkout and another checkout in the same rounds: has a change made Produce or Fetch slower?"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench import report, throughput
from bench.contenders import ROOT, Contender

MEASURED = {
    "full": ("--record-checks", "full"),
    "full, varied": ("--record-checks", "full"),
    "header": ("--record-checks", "header"),
    "--data": ("--record-checks", "full"),
}
FETCHED = ("full", "--data")
OTHER = "other: "
"""The names of the other checkout's contenders begin with this prefix."""


def contenders(checkout: Path, loop: str) -> list[Contender]:
    """Returns each contender twice: from this checkout, and from the other checkout. Both run with the same Python and the same
    libraries.
    """
    found = []
    for name, flags in MEASURED.items():
        ours = Contender(
            name,
            serve(ROOT, loop, flags),
            load=("-varied",) if "varied" in name else (),
            data_flag="--data" if name == "--data" else "",
        )
        found += [ours, replace(ours, name=OTHER + name, command=serve(checkout, loop, flags))]
    return found


def serve(checkout: Path, loop: str, flags: Sequence[str], command: str = "serve") -> tuple[str, ...]:
    """Returns the command that starts a server from the sources of a checkout."""
    return (*environment(checkout), sys.executable, "-m", "wirebroker", command, "--loop", loop, *flags)


def environment(checkout: Path, *others: Path) -> tuple[str, str]:
    """Returns the words to put before a Python command. With these words the command imports the sources of a checkout and of
    other folders.
    """
    paths = (*(checkout / root for root in sources()), *others)
    return "env", f"PYTHONPATH={':'.join(map(str, paths))}"


def sources() -> tuple[str, ...]:
    """Returns the folders of a checkout that hold its Python packages."""
    return "broker", "protocol", "pipeline", "tools"


def without_compiled(folder: Path) -> Path:
    """Copies this checkout to another folder, as pure Python."""
    for name in sources():
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    return folder


def measure(
    checkout: Path,
    loop: str,
    generator: Sequence[str],
    sizes: Sequence[str],
    rounds: int,
    deadline: float,
    share: float,
    say: Callable[[str], None],
) -> list[throughput.Case]:
    """Measures Produce with each size of batches, and Fetch, over one connection."""
    entered = contenders(checkout, loop)
    fetching = [each for each in entered if each.name.removeprefix(OTHER) in FETCHED]
    cases = [
        *throughput.produce_cases(entered, sizes, [1], 9, share),
        *throughput.fetch_cases(fetching, [1], 12, share),
    ]
    throughput.run(cases, generator, rounds, deadline, say)
    return cases


def text(case: throughput.Case) -> str:
    """Returns a line about one case. The line has this checkout's figures and their ratios to the other checkout's figures. A
    ratio compares figures of the same round.
    """
    fetch = case.mode == "fetch"
    rate, cpu = (
        ("megabytes_per_second", "server_cpu_us_per_megabyte")
        if fetch
        else ("requests_per_second", "server_cpu_us_per_request")
    )
    rows = []
    for name in MEASURED:
        pairs = list(zip(case.rounds.get(name, ()), case.rounds.get(OTHER + name, ()), strict=False))
        if not pairs:
            continue
        faster = sorted(mine[rate] / theirs[rate] for mine, theirs in pairs)
        cheaper = sorted(theirs[cpu] / mine[cpu] for mine, theirs in pairs)
        rows.append(
            [
                name,
                str(len(pairs)),
                f"{case.middle(name, rate):,.0f}",
                *_spread(faster),
                f"{case.middle(name, cpu):.2f}",
                *_spread(cheaper),
            ]
        )
    unit = "MB" if fetch else "req"
    head = ["", "rounds", f"{unit}/s", "× other", "from", "to", f"CPU µs/{unit}", "other ÷ this", "from", "to"]
    return f"{case.title}\n{report.table(head, rows)}" + "".join(
        f"\n{name} failed: {why}" for name, why in case.failures.items()
    )


def _spread(ratios: Sequence[float]) -> list[str]:
    return [f"{median(ratios):.3f}", f"{ratios[0]:.3f}", f"{ratios[-1]:.3f}"]
