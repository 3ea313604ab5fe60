"""The sentences of `wirebroker.audit.wording`, and the rules of `wirebroker.audit.rules`, as SQL columns."""

from __future__ import annotations

from string import Formatter
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from wirebroker.audit.rules import Rules
from wirebroker.audit.wording import Wording


class SqlWording(Wording):
    """Makes explanations of findings from columns. A part that is null makes the whole sentence null."""

    def text(self, template: str, **parts: Any) -> Column:
        pieces: list[Column] = []
        for literal, name, _, _ in Formatter().parse(template):
            if literal:
                pieces.append(sf.lit(literal))
            if name is not None:
                pieces.append(column_of(parts[name]).cast("string"))
        return sf.concat(*pieces)

    def choose(self, condition: Any, yes: Any, no: Any) -> Column:
        return sf.when(column_of(condition), yes).otherwise(no)

    def checksum(self, number: Any) -> Column:
        return sf.format_string("0x%08x", number)

    def seconds(self, ms: Any) -> Column:
        return sf.format_string("%,.1f", ms / 1000)


class SqlRules(Rules):
    """The rules for columns."""

    def choose(self, condition: Any, yes: Any, no: Any) -> Column:
        return sf.when(condition, yes).otherwise(no)

    def modulo(self, number: Any, divisor: int) -> Column:
        return sf.pmod(number, sf.lit(divisor))


def column_of(value: Any) -> Column:
    """Returns the value if it is a column, else a literal column of the value."""
    return value if isinstance(value, Column) else sf.lit(value)


class _Row:
    """Gives the columns of a DataFrame as attributes, like the fields of a struct."""

    def __getattr__(self, name: str) -> Column:
        return sf.col(name)


ROW: Any = _Row()
WORDS, RULES = SqlWording(), SqlRules()
