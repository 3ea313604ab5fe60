"""Tests the parts of the replayer, which normalise responses, find differences, and send requests with the wire client.

The tests change each value of the recording once, and the replayer must find each difference.
"""

from __future__ import annotations

import copy
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.batches import HEADER_SIZE, crc_of, iter_batches, iter_records, read_header
from kafkawire.errors import ProtocolError
from kafkawire.frames import encode_response
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from kafkawire.messages.end_txn import EndTxnRequest, EndTxnResponse
from wirebroker.client.wire import ConnectionClosed, NoResponse, WireClient
from wirebroker_tools.conformance import readiness
from wirebroker_tools.conformance.batches import record_data
from wirebroker_tools.conformance.recording import Normaliser, Scenario, compare, load, normalised
from wirebroker_tools.conformance.replay import ALL_OPERATIONS, observe
from wirebroker_tools.conformance.run import BEHIND_MS, CLOCKS_APART_MS, Run

SCENARIOS = [replace(each, expected=normalised([row["observed"] for row in each.steps])) for each in load()]
NOW = 1_800_000_000_000
NOT_COMPARED = ("n", "n_v0", "len")
TEXTS = ("message", "m")


# Comparison finds every changed value


def _doctored(value: Any, key: str) -> Any:
    """Returns a value that differs from the given value, even after both values are normalised."""
    if key in TEXTS:
        return None if value is not None else "a text"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return -1 if value >= 0 else 0
    if isinstance(value, str):
        return "" if value else "x"
    return [] if value is None else None


def _places(observed: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every object member and list item, at any depth."""
    inside: list[tuple[Any, Any]] = []
    if isinstance(observed, dict):
        inside = list(observed.items())
    elif isinstance(observed, list):
        inside = list(enumerate(observed))
    for key, value in inside:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _cases() -> Iterator[tuple[Scenario, int, tuple[Any, ...]]]:
    for scenario in SCENARIOS:
        for index, row in enumerate(scenario.steps):
            for path in _places(row["observed"]):
                yield scenario, index, path


def _holder(observed: list[Any], index: int, path: tuple[Any, ...]) -> tuple[Any, Any]:
    held = observed[index]
    for key in path[:-1]:
        held = held[key]
    return held, path[-1]


def _named(path: tuple[Any, ...]) -> str:
    return next(key for key in reversed(path) if isinstance(key, str))


def _recorded(scenario: Scenario, index: int) -> list[Any]:
    """Returns the observations of a scenario. The observation at this index is a copy, which the caller may change."""
    recorded = [row["observed"] for row in scenario.steps]
    recorded[index] = copy.deepcopy(recorded[index])
    return recorded


def _doctor(holder: Any, key: Any, path: tuple[Any, ...]) -> bool:
    """Changes the value in place unless it is a list or a dict. Returns true if the value was changed."""
    if changed := not isinstance(holder[key], dict | list):
        holder[key] = _doctored(holder[key], _named(path))
    return changed


def _remove(holder: Any, key: Any, path: tuple[Any, ...]) -> bool:
    del holder[key]
    return True


@pytest.mark.parametrize(("change", "least"), [(_doctor, 3500), (_remove, 3900)])
def test_every_changed_or_missing_value_is_found(change: Callable[[Any, Any, Any], bool], least: int) -> None:
    unfound, tried = [], 0
    for scenario, index, path in _cases():
        if path[-1] in NOT_COMPARED:
            continue
        observed = _recorded(scenario, index)
        if change(*_holder(observed, index, path), path):
            tried += 1
            if index not in [difference.index for difference in compare(scenario, observed)]:
                unfound.append((scenario.name, index, path))
    assert unfound == []
    assert tried > least


def test_every_excess_value_is_found() -> None:
    for scenario in SCENARIOS:
        for index in range(len(scenario.steps)):
            observed = _recorded(scenario, index)
            observed[index]["more"] = 1
            assert [difference.index for difference in compare(scenario, observed)] == [index]


# Normalising


SAME = [
    ("other producer ids", [{"pid": 8}, {"pid": 9}, {"pid": 8}], [{"pid": 70}, {"pid": 3}, {"pid": 70}]),
    ("aborted ids are producer ids", [{"pid": 8}, {"ProducerId": 8}], [{"pid": 70}, {"ProducerId": 70}]),
    ("coordinator epochs", [{"coord_epoch": 0}], [{"coord_epoch": 14}]),
    ("a marker's epoch", [{"control_value_hex": "000000000000"}], [{"control_value_hex": "00007fffffff"}]),
    ("wording", [{"message": "this"}], [{"message": "that"}]),
    ("times", [{"timestamp": 1}], [{"timestamp": NOW}]),
    ("members", [{"member": "a"}, {"member": "a"}], [{"member": "b"}, {"member": "b"}]),
    ("advertised APIs", [{"error": "0 NONE", "n": 75}], [{"error": "0 NONE", "n": 30}]),
    ("order of partitions", [{"partitions": [{"part": 0}, {"part": 1}]}], [{"partitions": [{"part": 1}, {"part": 0}]}]),
    (
        "order of producers",
        [{"producers": [{"pid": 1, "last_seq": 10}, {"pid": 2, "last_seq": 20}]}],
        [{"producers": [{"pid": 6, "last_seq": 20}, {"pid": 5, "last_seq": 10}]}],
    ),
    (
        "a refusal's 0 is not an id",
        [{"pid": 8}, {"error": "105 X", "pid": 0}, {"pid": 9}],
        [{"pid": 0}, {"error": "105 X", "pid": 0}, {"pid": 1}],
    ),
]
OTHER = [
    ("one id for two", [{"pid": 8}, {"pid": 9}], [{"pid": 3}, {"pid": 3}]),
    ("two ids for one", [{"pid": 8}, {"pid": 8}], [{"pid": 3}, {"pid": 4}]),
    ("another's aborted id", [{"pid": 8}, {"pid": 9}, {"ProducerId": 8}], [{"pid": 8}, {"pid": 9}, {"ProducerId": 9}]),
    ("no coordinator epoch", [{"coord_epoch": 0}], [{"coord_epoch": -1}]),
    ("a marker's version", [{"control_value_hex": "000000000000"}], [{"control_value_hex": "000100000000"}]),
    ("a negative marker epoch", [{"control_value_hex": "000000000000"}], [{"control_value_hex": "0000ffffffff"}]),
    ("a longer marker", [{"control_value_hex": "000000000000"}], [{"control_value_hex": "00000000000000"}]),
    ("no text", [{"message": "this"}], [{"message": None}]),
    ("no time", [{"timestamp": 1}], [{"timestamp": -1}]),
    ("no member", [{"member": "a"}], [{"member": ""}]),
    ("another partition", [{"partitions": [{"part": 0}]}], [{"partitions": [{"part": 1}]}]),
    ("a refusal with an id", [{"error": "105 X", "pid": 0}], [{"error": "105 X", "pid": 7}]),
]


@pytest.mark.parametrize(("what", "one", "two"), SAME, ids=[case[0] for case in SAME])
def test_what_varies_from_run_to_run_is_the_same(what: str, one: list[Any], two: list[Any]) -> None:
    normal, other = Normaliser(), Normaliser()
    assert [normal(observed) for observed in one] == [other(observed) for observed in two], what


@pytest.mark.parametrize(("what", "one", "two"), OTHER, ids=[case[0] for case in OTHER])
def test_what_does_not_vary_is_another(what: str, one: list[Any], two: list[Any]) -> None:
    normal, other = Normaliser(), Normaliser()
    assert [normal(observed) for observed in one] != [other(observed) for observed in two], what


# References between steps, timestamps, and LogAppendTime


class _Clock:
    """A stand-in for a broker. It has only a clock."""

    address = ("127.0.0.1", 1)
    retries = 1

    def __init__(self) -> None:
        self.ms = NOW

    def now(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)

    def restart(self, mode: str) -> None:
        raise AssertionError(mode)


@pytest.fixture
def run() -> Run:
    return Run(Scenario("one", "", "main", []), _Clock())


def test_a_step_uses_what_earlier_steps_gave(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def give(_: Run, step: dict[str, Any]) -> dict[str, Any]:
        seen.append(step)
        return {"pid": 12, "epoch": 3}

    monkeypatch.setitem(ALL_OPERATIONS, "give", give)
    observe(run, 0, {"op": "give", "as": "p"})
    observe(run, 1, {"op": "give", "pid": "$p.pid", "reqs": [{"epoch": "$p.epoch+1"}, {"epoch": "$p.epoch-2"}], "m": "$"})
    assert seen[1] == {"op": "give", "pid": 12, "reqs": [{"epoch": 4}, {"epoch": 1}], "m": "$"}


def test_a_step_without_what_it_needs_is_not_done(run: Run) -> None:
    assert observe(run, 0, {"op": "init_pid", "pid": "$p.pid"}) == {"undone": "no earlier step returned 'p'"}


def test_batches_of_a_run_have_timestamps_of_their_own(run: Run) -> None:
    stamps = [run.batch_timestamp({}) for _ in range(3)]
    assert stamps == [NOW - BEHIND_MS, NOW - BEHIND_MS + 1, NOW - BEHIND_MS + 2]
    assert run.batch_timestamp({"ts": -2}) == -2
    assert run.batch_timestamp({"ts_offset_ms": 500}) == NOW + 500


def test_an_append_time_is_told_by_where_it_comes_from(run: Run) -> None:
    stamp = run.batch_timestamp({})
    assert run.append_time(-1, 0) == -1
    assert run.append_time(stamp, 0) == "max_ts_of_batch_in_step_0"
    assert run.append_time(NOW, 5) == "broker_now"
    assert run.append_time(NOW, 6) == "broker_now"
    assert run.append_time(NOW, 5) == "broker_earlier"


@pytest.mark.parametrize("answered", [0, NOW - CLOCKS_APART_MS - 1, NOW + CLOCKS_APART_MS + 1])
def test_a_time_that_is_nobodys_is_told_as_it_is(run: Run, answered: int) -> None:
    assert run.append_time(answered, 0) == answered


# Invalid batches


def _header(step: dict[str, Any]) -> Any:
    data = record_data(step, NOW)
    assert data is not None
    return read_header(data)


def test_a_well_formed_batch() -> None:
    data = record_data({"pid": 7, "epoch": 2, "seq": 5, "n": 3, "txn": True, "codec": "gzip"}, NOW)
    assert data is not None
    (batch,) = iter_batches(data)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)
    assert (header.records_count, header.last_offset_delta, header.compression) == (3, 2, 1)
    assert header.is_transactional
    assert not header.is_control
    assert header.crc == crc_of(batch)
    assert [record.value for record in iter_records(batch)] == [b"v5", b"v6", b"v7"]


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"attrs": 8}, "attributes", 8), ({"control": True}, "attributes", 32), ({"ts_type": 1}, "attributes", 8),
        ({"count": 9}, "records_count", 9), ({"last_offset_delta": 9}, "last_offset_delta", 9),
        ({"magic": 3}, "magic", 3), ({"base_offset": 4}, "base_offset", 4), ({"length": 10}, "batch_length", 10),
        ({"leader_epoch": 6}, "partition_leader_epoch", 6),
    ],
)  # fmt: skip
def test_an_alteration_is_covered_by_the_crc(given: dict[str, Any], field: str, value: int) -> None:
    data = record_data({"seq": 0, **given}, NOW)
    assert data is not None
    header = read_header(data)
    assert getattr(header, field) == value
    assert header.crc == crc_of(data)


def test_alterations_that_break_a_batch() -> None:
    whole = record_data({"n": 2}, NOW)
    assert whole is not None
    assert _header({"n": 2, "crc": 5}).crc == 5
    flipped = record_data({"n": 2, "flip_last_byte": True}, NOW)
    assert flipped is not None
    assert flipped[:-1] == whole[:-1]
    assert flipped[-1] == whole[-1] ^ 0xFF
    assert record_data({"n": 2, "truncate": 70}, NOW) == whole[:70]
    assert record_data({"n": 2, "truncate": -1}, NOW) == whole[:-1]
    assert record_data({"n": 2, "append_hex": "00ff"}, NOW) == whole + b"\x00\xff"
    assert record_data({"n": 2, "more": [{}]}, NOW) == whole * 2
    assert record_data({"raw_hex": None}, NOW) is None
    assert record_data({"raw_hex": "0102"}, NOW) == b"\x01\x02"


def test_an_empty_batch_is_a_header() -> None:
    data = record_data({"empty": True, "n": 1}, NOW)
    assert data is not None
    header = read_header(data)
    assert (len(data), header.size, header.records_count) == (HEADER_SIZE, HEADER_SIZE, 0)


# The wire client. The test is the other side of the connection.


class Peer:
    """The other end of a client's connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.client = WireClient(host, port, timeout=5)
        self._socket: socket.socket | None = None

    def read(self) -> bytes:
        if self._socket is None:
            self._socket, _ = self._listener.accept()
            self._socket.settimeout(5)
        (size,) = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))
        return self._socket.recv(size, socket.MSG_WAITALL)

    def send(self, raw: bytes) -> None:
        assert self._socket is not None
        self._socket.sendall(raw)

    def response(self, correlation_id: int) -> None:
        response = ApiVersionsResponse(error_code=35, api_keys=[])
        self.send(b"".join(bytes(part) for part in encode_response(correlation_id, response, 0)))

    def close_connection(self) -> None:
        assert self._socket is not None
        self._socket.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._listener.close()
        self.client.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def test_pipelined_responses_come_in_order(peer: Peer) -> None:
    for _ in range(2):
        peer.client.send(ApiVersionsRequest(), 0)
    asked = [struct.unpack_from(">hhi", peer.read()) for _ in range(2)]
    assert asked == [(18, 0, 1), (18, 0, 2)]
    peer.response(1)
    peer.response(2)
    assert [peer.client.response().error_code for _ in range(2)] == [35, 35]


def test_the_response_to_another_request_is_an_error_of_the_broker(peer: Peer) -> None:
    for _ in range(2):
        peer.client.send(ApiVersionsRequest(), 0)
        peer.read()
    peer.response(2)
    with pytest.raises(ProtocolError, match="correlation id 2, expected 1"):
        peer.client.response()


def test_a_request_without_response_is_not_awaited(peer: Peer) -> None:
    peer.client.send(ApiVersionsRequest(), 0, awaits_response=False)
    peer.client.send(ApiVersionsRequest(), 0)
    peer.read()
    peer.read()
    peer.response(2)
    assert peer.client.response().error_code == 35


def test_an_unreadable_response_is_reported_with_its_bytes(peer: Peer) -> None:
    peer.client.send(ApiVersionsRequest(), 0)
    peer.read()
    peer.send(bytes.fromhex("000000050000000123"))
    with pytest.raises(ProtocolError, match="the frame begins 0000000123"):
        peer.client.response()


def test_a_closed_connection_is_not_silence(peer: Peer) -> None:
    peer.client.send(ApiVersionsRequest(), 0)
    peer.read()
    with pytest.raises(NoResponse):
        peer.client.response(timeout=0.001)
    peer.close()
    with pytest.raises(ConnectionClosed):
        peer.client.request(ApiVersionsRequest(), 0)


def test_a_response_cut_off_is_a_closed_connection(peer: Peer) -> None:
    peer.client.send(ApiVersionsRequest(), 0)
    peer.read()
    peer.send(b"\0\0\0\x09\0\0")
    peer.close_connection()
    with pytest.raises(ConnectionClosed):
        peer.client.response()


# Waits until a broker is ready


def test_names_are_found_at_any_depth() -> None:
    steps = [{"txid": "a"}, {"reqs": [{"txid": "b"}]}, {"txid": ""}, {"txid": None}, {"group": "h"}]
    assert list(readiness._values(steps, "txid")) == ["a", "b"]
    assert list(readiness._values(steps, "group")) == ["h"]


class _Coordinator:
    """A stand-in for a coordinator. It responds to EndTxn. Its response to each DescribeTransactions has the next of its
    states."""

    def __init__(self, states: list[str], error_code: int = 0) -> None:
        self.states, self.error_code = states, error_code

    def request(self, message: Any, version: int, *_: Any) -> Any:
        if isinstance(message, EndTxnRequest):
            return EndTxnResponse(error_code=self.error_code)
        if not self.states:
            raise ConnectionClosed("no DescribeTransactions here")
        state = TransactionState(
            error_code=0, transactional_id="", transaction_state=self.states.pop(0), transaction_timeout_ms=0,
            transaction_start_time_ms=0, producer_id=1, producer_epoch=0, topics=[],
        )  # fmt: skip
        return DescribeTransactionsResponse(transaction_states=[state])

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("states", "error_code", "left"),
    [
        (["PrepareCommit", "PrepareCommit", "CompleteCommit", "Ongoing"], 0, ["Ongoing"]),
        (["CompleteAbort", "Ongoing"], 0, ["Ongoing"]),
        (["PrepareCommit"], 48, ["PrepareCommit"]),
        ([], 0, []),
    ],
    ids=["markers are awaited", "nothing to await", "after a refusal, nothing is awaited", "a broker that tells no state"],
)
def test_an_ended_transaction_is_awaited(
    states: list[str], error_code: int, left: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = _Coordinator(states, error_code)
    monkeypatch.setattr(readiness, "WireClient", lambda *_: coordinator)
    monkeypatch.setattr(readiness, "time", SimpleNamespace(sleep=lambda _: None, monotonic=lambda: 0))
    monkeypatch.setattr(run, "client", coordinator)
    step = {"op": "end_txn", "txid": "a", "pid": 1, "epoch": 0, "commit": True}
    assert observe(run, 0, step)["error"].startswith(f"{error_code} ")
    assert states == left
