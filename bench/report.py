"""The figures as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.throughput import Case

FLOOR, WALK, KFAKE = "floor", "floor+walk", "kfake"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns the rows in aligned columns: the first column is left-aligned, and numbers are right-aligned."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, ["-" * width for width in widths], *rows]:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([row[0].ljust(len(first)), *others]).rstrip())
    return "\n".join(lines)


def throughput(case: Case) -> str:
    """Returns the table of one case: medians over the rounds, and ratios within each round."""
    fetch = case.mode == "fetch"
    rate, cpu = ("megabytes_per_second", "server_cpu_us_per_megabyte") if fetch else (
        "requests_per_second", "server_cpu_us_per_request")  # fmt: skip
    head = ["", "MB/s" if fetch else "req/s", "from", "to", "× floor", "× kfake",
            "CPU µs/MB" if fetch else "CPU µs/req", "× floor", *([] if fetch else ["× walk"]), "× kfake",
            "p50 µs", "p99 µs"]  # fmt: skip
    if not fetch:
        head.insert(4, "MB/s")
    rows = []
    for contender in case.contenders:
        name = contender.name
        if name in case.failures:
            rows.append([name, "failed", *[""] * (len(head) - 2)])
        elif case.rounds.get(name):
            rates = [report[rate] for report in case.rounds[name]]
            row = [name, _number(case.middle(name, rate)), _number(min(rates)), _number(max(rates))]
            if not fetch:
                row.append(_number(case.middle(name, "megabytes_per_second")))
            row += [_ratio(case, name, other, rate) for other in (FLOOR, KFAKE)]
            row.append(_number(case.middle(name, cpu)))
            row += [_ratio(case, name, other, cpu) for other in ((FLOOR, KFAKE) if fetch else (FLOOR, WALK, KFAKE))]
            row += [_number(case.middle(name, "p50_us")), _number(case.middle(name, "p99_us"))]
            rows.append(row)
    text = f"{case.title}\n{table(head, rows)}"
    for name, why in case.failures.items():
        text += f"\n{name} failed: {why}"
    return text


def startup(found: dict[str, Any]) -> str:
    """Returns the table of startup times."""
    rows = [[f"{name}: process start to first Metadata response" if name != "bare interpreter" else
             "bare interpreter, start to end", *_times(times)]
            for name, times in found["processes"].items()]  # fmt: skip
    for name, times in found.get("imports", {}).items():
        rows.append([f"{name}: the import alone", *_times(times["import"])])
        rows.append([f"{name}: process start to end", *_times(times["process"])])
    mock = found.get("mock", {})
    if mock and "failure" not in mock:
        rows += [[f"MockKafka in a fresh process: {name}", *_times(times)] for name, times in mock["fresh"].items()]
        rows += [[f"MockKafka in a warm process: {name}", *_times(mock[name])] for name in ("start", "first answer", "stop")]
    text = "Startup, ms\n" + table(["", "median", "min", "max", "CPU"], rows)
    failures = dict(found["failures"])
    if "failure" in mock:
        failures["MockKafka"] = mock["failure"]
    return text + "".join(f"\n{name} failed: {why}" for name, why in failures.items())


def memory(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the table of resident memory."""
    lines = []
    for row in rows:
        batches = f"{row['records_per_batch']} in a batch"
        if "failure" in row:
            lines.append([row["contender"], batches, "failed", row["failure"][:60], ""])
        else:
            lines.append([row["contender"], batches, *(f"{row[key] / 1e6:.0f}" for key in ("before", "after")),
                          f"{(row['after'] - row['before']) / row['records']:.0f}"])  # fmt: skip
    head = ["", "records", "before", "after", "bytes/record"]
    return f"Resident memory, MB, of {rows[0]['records']:,} records of 100 B\n" + table(head, lines)


def _times(times: dict[str, float]) -> list[str]:
    return [f"{times[key]:.1f}" if key in times else "" for key in ("median", "min", "max", "cpu")]


def _ratio(case: Case, name: str, other: str, key: str) -> str:
    ratio = case.ratio(name, other, key)
    return "" if ratio is None or name == other else f"{ratio:.2f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
