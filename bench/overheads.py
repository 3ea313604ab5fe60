"""Measures the cost of faults, with and without a loaded rule, and of the trace at each level."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import report, throughput
from bench.contenders import Contender

PLAIN = "trace off"
RULE = '[[fault]]\nkind = "lose_ack"\napi = "Produce"\ntopic = "of nobody"\n'
PARTS = Path(__file__).resolve().parent


def contenders(loop: str, folder: Path) -> list[Contender]:
    """Returns a server for each setup. The trace is off and no rule is loaded, except in the setups for the trace and for
    rules. Ratios are to the first server.
    """
    rules = folder / "faults.toml"
    rules.write_text(RULE)
    broker = (str(Path(sys.executable).parent / "wirebroker"), "serve", "--loop", loop)
    bare = (sys.executable, str(PARTS / "without_faults.py"), "serve", "--loop", loop)
    off = ("--trace-level", "off")
    return [
        Contender(PLAIN, (*broker, *off)),
        Contender("no fault engine", (*bare, *off)),
        Contender("a rule that never matches", (*broker, *off, "--faults", str(rules))),
        Contender("ring of verdicts", broker),
        Contender("ring of exchanges", (*broker, "--trace-level", "exchanges")),
    ]


def measure(
    loop: str, generator: Sequence[str], sizes: Sequence[str], only: Sequence[str] | None, rounds: int, deadline: float,
    share: float, say: Callable[[str], None],
) -> list[throughput.Case]:  # fmt: skip
    """Produce over one connection with each size of batches; `only` names contenders by prefix."""
    with tempfile.TemporaryDirectory() as folder:
        entered = [
            each
            for each in contenders(loop, Path(folder))
            if each.name == PLAIN or not only or each.name.startswith(tuple(only))
        ]
        cases = list(throughput.produce_cases(entered, sizes, [1], 9, share))
        throughput.run(cases, generator, rounds, deadline, say)
    return cases


def text(case: throughput.Case) -> str:
    """Returns the table of one case: medians, and ratios to the plain server within each round."""
    rate, cpu = "requests_per_second", "server_cpu_us_per_request"
    rows = []
    for name, found in case.rounds.items():
        ratios: list[Any] = [case.ratio(name, PLAIN, key) for key in (rate, cpu)]
        rows.append(
            [name, str(len(found)), f"{case.middle(name, rate):,.0f}", f"{ratios[0]:.3f}", f"{case.middle(name, cpu):.2f}",
             f"{ratios[1]:.3f}"]
        )  # fmt: skip
    head = ["", "rounds", "req/s", f"× {PLAIN}", "CPU µs/req", f"× {PLAIN}"]
    shown = f"{case.title}\n{report.table(head, rows)}"
    return shown + "".join(f"\n{name} failed: {why}" for name, why in case.failures.items())
