"""Describes in words the faults, and the ways in which an application breaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wirebroker_tools.campaign.cases import Result

UNITS = {"s": 1, "m": 60, "h": 3600}
NAMES = {
    "lost": "LOST", "doubled": "DOUBLED", "reordered": "REORDERED", "open_transaction": "OPEN TRANSACTION", "hung": "HANGS",
    "storm": "RETRY STORM", "check_failed": "CHECK FAILED",
}  # fmt: skip
WORDS = {
    ("lose_request", "disconnect"): "the connection closes before the broker has the request",
    ("lose_request", "silence"): "the request is lost, and the connection goes silent",
    ("lose_ack", "disconnect"): "the response is lost, and the connection closes",
    ("lose_ack", "silence"): "the response is lost, and the connection goes silent",
}
PLAIN_WORDS = {
    "cut": "the connection closes inside the response", "restart": "the broker is killed and starts again",
    "throttle": "the client has to wait", "crash_after_write": "the broker is killed after the write",
    "expire_producer": "the partition forgets the producer",
    "fence": "another producer begins with the transactional id",
    "expire_transactional_id": "the coordinator forgets the transactional id",
    "truncate": "the log loses its end", "corrupt": "a record is damaged",
    "expire_member": "the session of the group's member ends", "move_leader": "another broker leads",
    "move_coordinator": "another broker coordinates",
}  # fmt: skip


def duration(text: str) -> float:
    """Returns `90s`, `10m` or `1h` in seconds. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise ValueError(f"budget {text}: expected a time like 90s, 10m or 1h")
    return float(match[1]) * UNITS[match[2] or "s"]


def ways(outcome: str, results: Iterable[Result]) -> Iterator[tuple[str, list[Result]]]:
    """Yields each kind of fault that led to an outcome, in words, with the results of its cases. The case with the earliest
    request comes first.
    """
    alike: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if outcome in result["outcomes"]:
            alike.setdefault((place_of(result), fault_in_words(result)), []).append(result)
    for (place, words), same in alike.items():
        same.sort(key=lambda each: int(each["nth"]))
        nth = ", ".join(str(each["nth"]) for each in same)
        how_often = next((f"; {each['again']}" for each in same if each.get("again")), "")
        yield f"{place}: {words} (nth {nth}) … {same[0]['sentence']}{how_often}", same


def place_of(result: Result) -> str:
    """Describes in words the requests at which a case's faults happen."""
    fault = result["fault"]
    return f"{result['api']} to {fault['topic']}" if fault.get("topic") else str(result["api"])


def faults_of(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the faults of a case or of its result, in the words of a fault file."""
    return [result["fault"], *([result["second"]] if result.get("second") else [])]


def fault_in_words(result: Mapping[str, Any]) -> str:
    """Returns the faults of a case, in words."""
    first, second = result["fault"], result.get("second")
    if second is None:
        return _in_words(first)
    if first["kind"] == "delay":
        return f"{_in_words(second)}, {first['ms']} ms late"
    same = all(first.get(word) == second.get(word) for word in ("api", "client_id", "topic"))
    where = "" if same else f" at {' of '.join(filter(None, (second['api'], second.get('client_id'))))}:"
    return f"{_in_words(first)}, and then{where} {_in_words(second)}"


def _in_words(fault: Mapping[str, Any]) -> str:
    kind = fault["kind"]
    if fault.get("times"):
        return f"{fault['times']} responses are lost, and each time the connection goes silent"
    if kind == "truncate" and fault["api"] == "Produce":
        return "the leader dies before another broker has copied the preceding batch (acks=1)"
    if kind == "error":
        return f"{fault['code']}{', and the request has taken effect' if fault.get('after') else ''}"
    if kind == "delay":
        return f"the broker handles the request {round(fault['ms'] / 1000)} s late"
    if kind == "advance":
        minutes = fault["ms"] // 60_000
        return f"the broker's clock jumps {f'{minutes // 60} h' if minutes >= 60 else f'{minutes} min'}"
    return WORDS.get((kind, fault.get("then", ""))) or PLAIN_WORDS.get(kind, kind)
