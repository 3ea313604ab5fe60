"""Metrics as text, in the format that Prometheus scrapes (text format 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from kafkawire.printable import printable

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(NamedTuple):
    """A value and its labels."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""
    """A suffix of the metric's name, such as `_bucket` in a histogram."""


class Family(NamedTuple):
    """The samples of one metric."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: list[Sample]


def exposition(families: Iterable[Family]) -> str:
    """Returns the families as text."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        lines += (f"{family.name}{sample.suffix}{_labels(sample.labels)} {_number(sample.value)}" for sample in family.samples)
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{printable(value).translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
