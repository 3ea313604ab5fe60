"""Formats times, durations, numbers and clients for the sentences of findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from wirebroker.trace.layout import time_of_day
from wirebroker.trace.rows import Row
from wirebroker_tools.explain.findings import Evidence

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
ANONYMOUS = ("User:ANONYMOUS", "")


class Client(NamedTuple):
    """A client. The principal, the client id and the host in the rows of its requests identify it."""

    principal: str
    client_id: str
    host: str

    def __str__(self) -> str:
        named = f"client {self.client_id!r}" if self.client_id else "a client"
        where = f" at {self.host}" if self.host else ""
        return f"{named}{where}" if self.principal in ANONYMOUS else f"{self.principal} ({named}{where})"

    @property
    def unnamed(self) -> str:
        """The name of the client without its principal."""
        return str(self._replace(principal=""))

    @property
    def chosen(self) -> str:
        """The filter that selects the client's rows in a trace."""
        if self.client_id:
            return equal("client", self.client_id)
        return equal("principal", self.principal) if self.principal else equal("host", self.host)


def client_of(row: Row) -> Client:
    """Returns the client of a row. If the row lacks a part of the client, this part is ""."""
    return Client(getattr(row, "principal", ""), getattr(row, "client_id", "") or "", getattr(row, "client_host", ""))


def ms(length: int) -> str:
    """Returns a duration in ms as text: 250 ms, 2.3 s, 5 min, 2.5 h."""
    if length < SECOND:
        return f"{length} ms"
    for unit, name, below in ((SECOND, "s", 2 * MINUTE), (MINUTE, "min", 2 * HOUR), (HOUR, "h", 10**15)):
        if length < below:
            return f"{length / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{length} ms"


def times(count: int) -> str:
    """Returns `once`, `twice` or `1,272 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def at(time: int) -> str:
    """Returns the time of day of `time`, which is in ms since the epoch."""
    return time_of_day(time)


def between(first: int, last: int) -> str:
    """Returns "at TIME" or "between TIME and TIME"."""
    return f"at {at(first)}" if last - first < SECOND else f"between {at(first)} and {at(last)}"


def rhythm(evidence: Evidence) -> str:
    """Returns the average time between two rows, such as ", on average every 104 ms", or "" if there are fewer than five
    rows."""
    return f", on average every {ms(evidence.span // (evidence.count - 1))}" if evidence.count >= 5 and evidence.span else ""


def tool(name: str, options: str) -> str:
    """Returns a command that runs one of Kafka's own scripts. The command includes the address of a broker, which every script
    needs."""
    return f"{name}.sh --bootstrap-server BROKER:9092 {options}"


def number_in(details: Mapping[str, str | int], name: str, default: int = 0) -> int:
    """Returns the integer that a row's details have under the name `name`, or the default."""
    value = details.get(name)
    return value if isinstance(value, int) else default


def equal(field: str, value: object) -> str:
    """Returns the filter for the rows whose field `field` has the value `value`."""
    text = str(value)
    if '"' in text or not text.isprintable():  # a filter cannot contain these characters
        typed = "".join(each if each.isprintable() and each != '"' else "\n" for each in text)
        return f'{field}~"{max(typed.splitlines(), key=len, default="")}"'
    return f"{field}={text}" if text and all(each.isalnum() or each in "-_.:/" for each in text) else f'{field}="{text}"'


def capital(text: str) -> str:
    """Returns the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
