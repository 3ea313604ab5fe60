"""The step `exchange`: sends any request, given by the names of its fields, and records all fields of the response.

In a request, `@T` stands for a topic of the run, `#T` for the topic's id, `@g` for any other name of the run, and `0x…` for
bytes. The response is recorded in the same form, without fields that have their default value. In place of an error message,
the recording only says whether the response has a message. In place of a batch, the recording has the batch's first offset and
number of records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kafkawire.batches import first_header, iter_batches
from kafkawire.declare import Field, Struct
from kafkawire.errors import error_name
from wirebroker_tools.conformance.recording import Json
from wirebroker_tools.conformance.run import Run

NAME, ID, HEX = "@", "#", "0x"
_TOPIC = re.compile(r"[@#](T\w*)")
_UNORDERED = frozenset(
    {
        "members",
        "groups",
        "topics",
        "topic_partitions",
        "active_tasks",
        "standby_tasks",
        "responses",
        "configs",
        "matching_acls",
        "acls",
    }
)
_NOT_RECORDED = frozenset({"throttle_time_ms", "client_host", "node_endpoints"})
_PRESENCE = frozenset({"error_message", "acknowledge_error_message"})


def exchange(run: Run, step: Json) -> Json:
    """Send the request of a step. Returns the response in the form of recordings."""
    for name in dict.fromkeys(_topics(step["fields"])):
        run.topic_names.setdefault(run.topic_id(run.topic({"topic": name})), name)
    ids = {name: raw for raw, name in run.topic_names.items()}
    response = run.ask(step["api"], step, step["v"], **_meant(step["fields"], run, ids))
    return {"answer": _shown(response, run)}


def _topics(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _topics(each)
    elif isinstance(value, str) and (found := _TOPIC.fullmatch(value)):
        yield found.group(1)


def _meant(value: Any, run: Run, ids: dict[str, bytes]) -> Any:
    if isinstance(value, dict):
        return {key: _meant(each, run, ids) for key, each in value.items()}
    if isinstance(value, list):
        return [_meant(each, run, ids) for each in value]
    if isinstance(value, str) and (found := _TOPIC.fullmatch(value)):
        return ids[found.group(1)] if value.startswith(ID) else run.topic({"topic": found.group(1)})
    if isinstance(value, str) and value.startswith(HEX):
        return bytes.fromhex(value.removeprefix(HEX))
    return run.name(value[1:]) if isinstance(value, str) and value.startswith(NAME) else value


def _shown(response: Struct, run: Run) -> Json:
    told = {}
    for declared in response.__wire__:
        value = getattr(response, declared.name)
        default = declared.default() if callable(declared.default) else declared.default
        if declared.name not in _NOT_RECORDED and value != default:
            told[declared.name] = _field(value, declared, run)
    return told


def _field(value: Any, declared: Field, run: Run) -> Any:
    if declared.name.endswith("error_code"):
        return f"{value} {error_name(value)}"
    if declared.name in _PRESENCE:
        return value is not None
    if declared.spec == "records":
        return [_batch(batch) for batch in iter_batches(memoryview(value or b""))]
    if isinstance(value, list):
        items = [_item(each, run) for each in value]
        return sorted(items, key=repr) if declared.name in _UNORDERED else items
    return _item(value, run)


def _batch(batch: memoryview) -> list[int]:
    """Returns a batch's first offset and number of records.

    For an entry of an old message set, the result is the entry's offset and 1.
    """
    header = first_header(batch)
    return [int.from_bytes(batch[:8], "big"), 1] if header is None else [header.base_offset, header.records_count]


def _item(value: Any, run: Run) -> Any:
    if isinstance(value, Struct):
        return _shown(value, run)
    if isinstance(value, bytes):
        return ID + run.topic_names[value] if value in run.topic_names else value.hex()
    return own_names(value, run) if isinstance(value, str) else value


def own_names(text: str, run: Run) -> str:
    """Returns the text with `@T` in place of the run's topic, and with names like `@g` in place of the run's other names."""
    return text.replace(run.topic({}), NAME + "T").replace(f"{NAME}T-", NAME)
