"""Converts messages to JSON in which symbols replace values that differ between brokers.

`@t` is the topic, group or transactional id `t` of this dialogue. In a field for a topic id, `@t` is the id of the topic. `$p1`
is the first returned producer id, `$m2` the second member id, `$s1` the first fetch session, and `$t3` the append time of the
third request's batches. A field with its default value is left out. For times and error messages, a comparison does not check
the values, only whether they are set.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafkawire.batches import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    build_batch,
    iter_batches,
    iter_records,
    read_header,
    read_marker,
)
from kafkawire.compression import NAMES
from kafkawire.declare import Field, Message, Struct
from kafkawire.errors import error_name
from wirebroker_tools.conformance.batches import altered

Json = dict[str, Any]
NAME, ID = "@", "$"
UNORDERED = frozenset(
    {
        "members", "groups", "topics", "partitions", "results", "topic_results", "results_by_partition",
        "results_by_transaction", "results_by_topic_v3_and_below", "active_producers", "transaction_states", "markers",
        "responses", "partition_responses", "configs", "topic_partitions", "subscribed_topic_names", "active_tasks",
        "standby_tasks", "warmup_tasks", "active_partitions", "standby_partitions", "partitions_by_user_endpoint",
        "entries", "api_keys", "supported_features", "finalized_features", "feature_updates",
    }
)  # fmt: skip
"""Arrays that a Kafka response has in the order of a Java hash table."""
_NOT_COMPARED = frozenset(
    {"throttle_time_ms", "client_host", "node_endpoints", "host", "port", "cluster_id", "finalized_features_epoch"}
)
_TIMES = frozenset({"transaction_start_time_ms", "last_timestamp", "log_append_time_ms", "timestamp"})
_PRESENCE_ONLY = frozenset({"error_message", "batch_index_error_message", "acknowledge_error_message", "status_detail"})
_RANDOM = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MEMBER_ID_REQUIRED = 79
_NOBODY = -1


@dataclass(slots=True)
class Symbols:
    """The ids and names of a dialogue on one broker. Names begin with `prefix`, so that dialogues do not affect each other."""

    prefix: str
    _ids: dict[str, Any] = field(default_factory=dict)
    _symbols: dict[Any, str] = field(default_factory=dict)
    _topic_ids: dict[str, bytes] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def topic(self, name: str, topic_id: bytes) -> None:
        """Note a topic's id; `name` is without the prefix."""
        self._topic_ids[name] = topic_id
        self._symbols[topic_id] = NAME + name

    def real(self, text: str) -> Any:
        """Returns the broker's name or id for a symbol. Raises KeyError if the broker has not returned such an id."""
        if text.startswith(NAME):
            return self.prefix + text[1:]
        if text.startswith(f"{ID}t"):
            return self._ids.get(text, 0)  # 0 if the release lacks the API, so that the request was not sent
        return self._ids[text] if text.startswith(ID) else text

    def topic_id(self, text: str) -> bytes:
        """Returns the id of a topic. For an unknown topic, returns an id that no topic has; for an empty name, returns
        zeros.
        """
        return self._topic_ids.get(text[1:], bytes(15) + b"\5") if text != NAME else bytes(16)

    def date(self, request: int, now: int) -> None:
        """Remember the time, in ms, of the batches in a request."""
        self._ids[f"{ID}t{request}"] = now

    def learn(self, response: Message) -> None:
        """Give a symbol to each new id in this response."""
        error = getattr(response, "error_code", 0)
        if error == 0 and getattr(response, "producer_id", _NOBODY) != _NOBODY:
            self._number("p", response.producer_id)  # type: ignore[attr-defined]
        if error in (0, _MEMBER_ID_REQUIRED) and isinstance(member := getattr(response, "member_id", None), str):
            self._number("m", member)
        if getattr(response, "session_id", 0):
            self._number("s", response.session_id)  # type: ignore[attr-defined]
        for topic in getattr(response, "topics", None) or getattr(response, "responses", None) or ():
            name, topic_id = getattr(topic, "name", None), getattr(topic, "topic_id", None)
            if name and topic_id and any(topic_id) and name.startswith(self.prefix):
                self.topic(name.removeprefix(self.prefix), topic_id)

    def _number(self, kind: str, real: Any) -> None:
        if real != "" and real not in self._symbols:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            symbol = f"{ID}{kind}{self._counts[kind]}"
            self._symbols[real], self._ids[symbol] = symbol, real

    def symbol(self, real: Any) -> Any:
        """Returns the symbol of an id or name. Returns any other value without its random parts."""
        if real in self._symbols:
            return self._symbols[real]
        if isinstance(real, str):
            own = real.startswith(self.prefix)
            return _RANDOM.sub("(random)", NAME + real.removeprefix(self.prefix) if own else real)
        return real


def to_json(value: Struct, symbols: Symbols) -> Json:
    """Returns the fields of a response in a form that can be compared."""
    shown = {}
    for declared in value.__wire__:
        item = getattr(value, declared.name)
        if declared.name not in _NOT_COMPARED and item != _default(declared, value):
            shown[declared.name] = _shown(item, declared, value, symbols)
    return shown


def _default(declared: Field, owner: Struct) -> Any:
    if declared.name == "producer_id" and not getattr(owner, "error_code", 0):
        return _NOBODY  # 0 is a valid producer id
    return declared.default() if callable(declared.default) else declared.default


def _shown(item: Any, declared: Field, owner: Struct, symbols: Symbols) -> Any:
    name = declared.name
    if name in _PRESENCE_ONLY:
        return item is not None
    if name.endswith("error_code"):
        return f"{item} {error_name(item)}"
    if name in _TIMES and item >= 0:
        return "a time"
    if name == "coordinator_epoch" and item >= 0:
        return "0 or more"
    if name == "session_id":
        return symbols.symbol(item)
    if name == "producer_id":
        return item if getattr(owner, "error_code", 0) else symbols.symbol(item)
    if declared.spec == "records":
        return None if item is None else _records(item, symbols)
    if isinstance(item, list):
        items = [_element(each, symbols) for each in item]
        return sorted(items, key=repr) if name in UNORDERED else items
    return _element(item, symbols)


def _element(item: Any, symbols: Symbols) -> Any:
    if isinstance(item, Struct):
        return to_json(item, symbols)
    if isinstance(item, bytes | bytearray | memoryview):
        known = symbols.symbol(bytes(item))
        return known if isinstance(known, str) else known.decode("latin-1")
    return symbols.symbol(item) if isinstance(item, str) else item


def _records(data: Any, symbols: Symbols) -> list[str]:
    """Returns a line for each batch, such as `4: $p1 epoch 0 seq 2 txn a0 a1`."""
    return [_batch_line(read_header(batch), batch, symbols) for batch in iter_batches(data)]


def _batch_line(header: BatchHeader, batch: memoryview, symbols: Symbols) -> str:
    producer = symbols.symbol(header.producer_id)
    line = f"{header.base_offset}: {producer} epoch {header.producer_epoch} seq {header.base_sequence}"
    line += " txn" if header.attributes & TRANSACTIONAL else ""
    line += f" {NAMES[header.compression]}" if header.compression else ""
    for record in iter_records(batch):
        if header.attributes & CONTROL:
            marker = read_marker(record)
            line += " control" if marker is None else " COMMIT" if marker.commit else " ABORT"
        else:
            line += " " + (record.value or b"").decode("latin-1")
    return line


def from_json(cls: Callable[..., Any], body: Json, symbols: Symbols, now: int) -> Any:
    """Makes a request from its symbolic form. Its batches have the time `now` (ms). Raises KeyError for an unknown symbol."""
    wired: tuple[Field, ...] = cls.__wire__  # type: ignore[attr-defined]
    fields = {declared.name: declared for declared in wired}
    return cls(**{name: _meant(item, fields[name].spec, symbols, now) for name, item in body.items()})


def _meant(item: Any, spec: Any, symbols: Symbols, now: int) -> Any:
    if item is None:
        return None
    if isinstance(spec, list):
        return [_meant(each, spec[0], symbols, now) for each in item]
    if isinstance(spec, type):
        return from_json(spec, item, symbols, now)
    if spec == "records":
        return b"".join(_batch(each, symbols, now) for each in item)
    if spec == "uuid":
        return symbols.topic_id(item)
    if spec == "bytes":
        return item.encode("latin-1")
    return symbols.real(item) if isinstance(item, str) else item


def _batch(told: Json, symbols: Symbols, now: int) -> bytes:
    """Makes a batch of `n` records (default 1), whose values are the tag and a number, or null. The field `altered` in `told`
    says which errors are put into the batch."""
    producer = told.get("pid", _NOBODY)
    key = told.get("key")
    sound = build_batch(
        [
            Record(
                i, i * told.get("step_ms", 0), key and key.encode(), None if told.get("null") else f"{told['tag']}{i}".encode()
            )
            for i in told.get("offset_deltas") or range(told.get("n", 1))
        ],
        base_timestamp=now + told.get("ts_offset_ms", 0),
        producer_id=symbols.real(producer) if isinstance(producer, str) else producer,
        producer_epoch=told.get("epoch", -1),
        base_sequence=told.get("seq", -1),
        compression=NAMES.index(told.get("codec", "none")),
        transactional=bool(told.get("txn")),
    )
    return altered(sound, told)
