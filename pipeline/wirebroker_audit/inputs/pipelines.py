"""Pipelines, as `--pipeline` names them: `in:orders=out:invoices`, or a TOML file.

[pipelines.billing]
in = "orders"                      # a topic, or a list of topics
out = ["invoices", "rejected"]     # topics, or a TOML file that describes a table
match = "header:order-id"
fan_out = [1, 3]
may_drop = "value:$.state=draft"
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wirebroker.common.suggestions import nearest
from wirebroker.common.toml import toml_file
from wirebroker_audit.checks.against_table import Description, is_description, read_output
from wirebroker_audit.checks.pipeline import BEGINS, ISOLATIONS, TRANSACTION, Pipeline
from wirebroker_audit.reading.identities import BadPart, Condition, Part, part_from

_FIELDS = (
    "in", "out", "match", "match_out", "group", "fan_out", "may_drop", "may_merge", "order", "begin", "isolation",
)  # fmt: skip


class BadPipeline(Exception):
    """Raised if a text or a file does not describe a pipeline. The message gives the reason."""


def read_pipelines(given: Iterable[str], match: str | None) -> tuple[Pipeline, ...]:
    """Reads the pipelines of all `--pipeline` flags. `match` applies to pipelines without a `match` of their own. Raises
    BadPipeline, BadTable, OSError."""
    found: list[Pipeline] = []
    for text in given:
        found += _of_file(text, match) if is_description(text) and "=" not in text else [_of_text(text, match)]
    names = [each.name for each in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadPipeline(f"--pipeline: the pipeline {twice[0]!r} is named twice")
    if match is not None and not found:
        raise BadPipeline("--match says how a pipeline's records are matched: it needs --pipeline")
    return tuple(found)


def _of_text(text: str, match: str | None) -> Pipeline:
    sides = [part.partition(":") for part in text.split("=")]
    if [side for side, *_ in sides] != ["in", "out"] or not all(names for *_, names in sides):
        raise BadPipeline(f"--pipeline {text}: expected in:TOPIC=out:TOPIC, or a TOML file")
    (*_, inputs), (*_, outputs) = sides
    return _pipeline(f"--pipeline {text}", text, {"in": inputs.split(","), "out": outputs.split(",")}, match, Path())


def _of_file(path: str, match: str | None) -> list[Pipeline]:
    given = toml_file(path, BadPipeline)
    tables = given.pop("pipelines", None)
    if given or not isinstance(tables, dict) or not tables:
        raise BadPipeline(f"{path}: expected tables such as [pipelines.billing] and nothing else")
    return [_pipeline(f"{path}: pipelines.{name}", name, table, match, Path(path).parent) for name, table in tables.items()]


def _pipeline(where: str, name: str, given: Any, match: str | None, folder: Path) -> Pipeline:
    if not isinstance(given, dict):
        raise BadPipeline(f"{where}: expected a table, not {given!r}")
    for field in given:
        if field not in _FIELDS:
            raise BadPipeline(f"{where}: there is no setting {field!r}{nearest(field, _FIELDS)}")
    inputs, outputs = (_names(where, side, given.get(side)) for side in ("in", "out"))
    table = _table(where, outputs, folder)
    if shared := set(inputs) & set(outputs):
        raise BadPipeline(f"{where}: {min(shared)} is an input and an output")
    chosen = given.get("match", match or "key")
    made = Pipeline(
        name, inputs, () if table else outputs, None if chosen == TRANSACTION else _part(where, "match", chosen), table,
        match_out=None if "match_out" not in given else _part(where, "match_out", given["match_out"]),
        group=_text(where, "group", given.get("group")),
        fan_out=_fan_out(where, given.get("fan_out", 1)),
        may_drop=_may_drop(where, given.get("may_drop", False)),
        may_merge=_flag(where, "may_merge", given.get("may_merge", False)),
        order=given.get("order", True) if isinstance(given.get("order", True), bool) else _part(where, "order", given["order"]),
        begin=_one_of(where, "begin", given.get("begin", BEGINS[0]), BEGINS),
        isolation=_one_of(where, "isolation", given.get("isolation", ISOLATIONS[0]), ISOLATIONS),
    )  # fmt: skip
    if made.match is None and (unfit := [field for field in ("match_out", "order") if field in given]):
        raise BadPipeline(f"{where}: {unfit[0]} needs the contents of records, but match = {TRANSACTION!r} only counts records")
    if made.match is None and (table or isinstance(made.may_drop, Condition)):
        what = "the output is a table" if table else "may_drop has a condition"
        raise BadPipeline(f"{where}: {what}, but match = {TRANSACTION!r} only counts the records of a transaction")
    return made


def _names(where: str, side: str, given: Any) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(each, str) and each.strip() for each in names):
        raise BadPipeline(f"{where}: {side} must be a topic or a list of topics, not {given!r}")
    return tuple(each.strip() for each in names)


def _table(where: str, outputs: tuple[str, ...], folder: Path) -> Description | None:
    files = [each for each in outputs if is_description(each)]
    if not files:
        return None
    if len(outputs) > 1:
        raise BadPipeline(f"{where}: out is either topics or one table")
    return read_output(str(folder / files[0]))


def _part(where: str, name: str, given: Any) -> Part:
    try:
        return part_from(str(given))
    except BadPart as wrong:
        raise BadPipeline(f"{where}: {name}: {wrong}") from None


def _text(where: str, name: str, given: Any) -> str | None:
    if given is not None and (not isinstance(given, str) or not given):
        raise BadPipeline(f"{where}: {name} must be a text, not {given!r}")
    return given


def _fan_out(where: str, given: Any) -> tuple[int, int | None]:
    """Returns the smallest and the largest number of outputs of an input."""
    least, most = (1, None) if given == "any" else given if isinstance(given, list) and len(given) == 2 else (given, given)
    for each in (least, most):
        if each is not None and (not isinstance(each, int) or isinstance(each, bool) or each < 1):
            raise BadPipeline(
                f'{where}: fan_out must be a number from 1 on, two numbers such as [1, 3], or "any", not {given!r}'
            )
    if most is not None and most < least:
        raise BadPipeline(f"{where}: fan_out: {least} is more than {most}")
    return least, most


def _may_drop(where: str, given: Any) -> bool | Condition:
    if isinstance(given, bool):
        return given
    part, equals, text = str(given).partition("=")
    if not equals:
        raise BadPipeline(f"{where}: may_drop must be true, false, or a condition such as 'value:$.state=draft', not {given!r}")
    return Condition(_part(where, "may_drop", part), text.encode())


def _flag(where: str, name: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise BadPipeline(f"{where}: {name} must be true or false, not {given!r}")
    return given


def _one_of(where: str, name: str, given: Any, allowed: tuple[str, ...]) -> str:
    if given not in allowed or not isinstance(given, str):
        raise BadPipeline(f"{where}: {name} must be {' or '.join(allowed)}, not {given!r}")
    return given


def turns_of(pipelines: Iterable[Pipeline]) -> dict[str, int]:
    """Returns the order in which topics are read to their ends: inputs after their outputs. So, for every output that is read
    from a live log, its input is read, too."""
    chain = list(pipelines)
    turns: dict[str, int] = {}
    for _ in chain:
        for each in chain:
            after = 1 + max((turns.get(topic, 0) for topic in each.outputs), default=0)
            turns |= {topic: max(after, turns.get(topic, 0)) for topic in each.inputs}
    return turns
