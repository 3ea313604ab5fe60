"""How tests check records: `assert_records` with its patterns and its messages, committed records, and waits."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any
from unittest.mock import ANY

import pytest
from confluent_kafka import Consumer, Producer

from controlkit import ControlClient
from wirebroker import MockKafka
from wirebroker.deeds.errors import NoSuchTopic
from wirebroker.testing.expectations import Difference, record, subset

pytestmark = pytest.mark.mock_kafka(topics={"orders": 1, "wide": 2})


def write_transactions(kafka: MockKafka) -> None:
    """Writes a committed transaction, an aborted transaction, an open transaction, and a record without a transaction."""
    for name in ("committed", "aborted", "open"):
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("orders", name)
        producer.flush()
        if name != "open":
            getattr(producer, {"committed": "commit_transaction", "aborted": "abort_transaction"}[name])()
    kafka.produce("orders", value="after")


def values(records: list[Any]) -> list[bytes | None]:
    return [each.value for each in records if not each.control]


# Committed records


def test_committed_records_are_those_that_a_read_committed_consumer_gets(mock_kafka: MockKafka) -> None:
    write_transactions(mock_kafka)
    assert values(mock_kafka.records("orders")) == [b"committed", b"aborted", b"open", b"after"]
    assert values(mock_kafka.records("orders", committed=True)) == [b"committed"]
    mock_kafka.fence("open")
    assert values(mock_kafka.records("orders", 0, committed=True)) == [b"committed", b"after"]
    assert values(mock_kafka.wait_for_records("orders", 2, committed=True)) == [b"committed", b"after"]
    with pytest.raises(TimeoutError, match=r"2 of 3 records were committed in 'orders' \(and 2 aborted\) within 0.01 s"):
        mock_kafka.wait_for_records("orders", 3, timeout=0.01, committed=True)
    mock_kafka.assert_records("orders", ["committed", "after"])
    mock_kafka.assert_records("orders", ["committed", "aborted", "open", "after"], committed=False)


def test_an_expected_record_that_is_not_committed_is_not_called_missing(mock_kafka: MockKafka) -> None:
    write_transactions(mock_kafka)
    lines = difference(mock_kafka, ["committed", "aborted", "open", "after", "absent"])
    told = {line.split(": StoredRecord")[0].strip() for line in lines[1:]}
    assert told == {
        "1: not committed: 'aborted' was aborted with its transaction",
        "2: not committed: 'open' is in an open transaction",
        "3: not committed: 'after' is committed, but waits for an earlier transaction to end",
        "4: missing: 'absent'",
    }
    with pytest.raises(TimeoutError, match=r"1 of 2 records were committed .*\(and 1 aborted, 1 open, 1 held back\)"):
        mock_kafka.wait_for_records("orders", 2, timeout=0.01, committed=True)


# Records with JSON


def test_json_is_stored_and_read(mock_kafka: MockKafka) -> None:
    mock_kafka.produce("orders", key=["k"], value={"id": 1, "item": "Tee, grün"}, headers={"h": {"a": None}})
    mock_kafka.produce("orders", value=b"\xff")
    mock_kafka.produce("orders", value=None)
    first, binary, tombstone = mock_kafka.records("orders")
    assert (first.json(), first.key, first.headers) == ({"id": 1, "item": "Tee, grün"}, b'["k"]', (("h", b'{"a": null}'),))
    with pytest.raises(ValueError, match="the value of orders-0 offset 1 is not UTF-8"):
        binary.text()
    with pytest.raises(ValueError, match="orders-0 offset 2 is a tombstone: it has no value"):
        tombstone.json()
    mock_kafka.produce("orders", value="tea")
    assert mock_kafka.records("orders")[3].text() == "tea"
    with pytest.raises(ValueError, match="the value of orders-0 offset 3 is not JSON"):
        mock_kafka.records("orders")[3].json()


# Matchers

ORDER = {"id": 7, "item": "tea", "to": {"name": "Ann", "zip": "1234"}, "tags": ["a", "b"], "paid": True}


@pytest.mark.parametrize(
    ("expected", "fits"),
    [
        (ORDER, True),
        (ORDER | {"id": 8}, False),
        ({"id": 7}, False),
        (subset({"id": 7}), True),
        (subset({"to": {"name": "Ann"}, "tags": ["a", ...]}), True),
        (subset({"tags": ["a"]}), False),
        (subset({"paid": 1}), False),
        (ORDER | {"to": ...}, True),
        (ORDER | {"paid": ANY}, True),
        (ORDER | {"id": lambda number: number > 5}, True),
        (ORDER | {"id": lambda number: number > 7}, False),
        (subset({"item": re.compile("^t")}), True),
        (subset({"item": re.compile("^T")}), False),
        (re.compile('"item": "tea"'), True),
        (record(key="k", headers={"h": "x", "i": None}), True),
        (record(key="k", headers={"h": "x"}), False),
        (record(key="k", headers=subset({"h": re.compile("x")}), partition=0), True),
        (record(partition=1), False),
        (record(key=b"k", value=subset({"id": 7})), True),
        (record(key=None), False),
        (lambda stored: stored.json()["id"] == 7 and stored.offset == 0, True),
        (..., True),
        (None, False),
        ("tea", False),
    ],
)
def test_an_expected_record_fits(expected: Any, fits: bool, mock_kafka: MockKafka) -> None:
    mock_kafka.produce("orders", key="k", value=ORDER, headers={"h": "x", "i": None})
    if fits:
        assert len(mock_kafka.assert_records("orders", [expected])) == 1
    else:
        with pytest.raises(Difference):
            mock_kafka.assert_records("orders", [expected])


def test_a_matcher_of_values_works_in_a_plain_assert(mock_kafka: MockKafka) -> None:
    mock_kafka.produce("orders", value=ORDER)
    (stored,) = mock_kafka.records("orders")
    assert stored.json() == subset({"to": {"zip": re.compile(r"\d{4}")}})
    assert stored.json() != subset({"to": {"zip": "4321"}})


# Differences


def difference(kafka: MockKafka, expected: list[Any], **words: Any) -> list[str]:
    with pytest.raises(Difference) as failed:
        kafka.assert_records("orders", expected, timeout=0.01, **words)
    return str(failed.value).splitlines()


def test_a_difference_names_what_is_missing_unexpected_and_different(mock_kafka: MockKafka) -> None:
    for item in ("tea", "milk", "coffee", "salt"):
        mock_kafka.produce("orders", key="k", value={"item": item, "to": {"zip": "1"}})
    to = {"to": {"zip": "1"}}
    assert difference(mock_kafka, [{"item": "tea"} | to, {"item": "cocoa"} | to, {"item": "salt"} | to]) == [
        "the records of 'orders' differ: 3 expected, 4 found, 2 of them as expected",
        '  1: expected {"item": "cocoa", "to": {"zip": "1"}}',
        """     is not  StoredRecord(orders-0 offset 1, key 'k', value '{"item": "milk", "to": {"zip": "1"}}')""",
        "     item: expected 'cocoa', found 'milk'",
        """  unexpected: StoredRecord(orders-0 offset 2, key 'k', value '{"item": "coffee", "to": {"zip": "1"}}')""",
    ]
    wanted = [subset({"item": each}) for each in ("tea", "milk", "coffee", "salt")]
    assert difference(mock_kafka, [*wanted, record(key="k", value=...)])[1:] == ["  4: missing: record(key='k')"]
    assert difference(mock_kafka, wanted[::-1])[-1] == (
        "  the same records are there in another order; in_order=False accepts any order"
    )
    mock_kafka.assert_records("orders", wanted[::-1], in_order=False)


def test_any_order_gives_a_record_to_the_one_that_needs_it(mock_kafka: MockKafka) -> None:
    """`...` matches every record. So `...` must not match the only record that another pattern can match."""
    for value in ("one", "two", "three"):
        mock_kafka.produce("orders", value=value)
    mock_kafka.assert_records("orders", [..., re.compile("^t"), "one"], in_order=False)
    mock_kafka.assert_records("orders", [re.compile("^t"), ..., "two"], in_order=False)
    assert difference(mock_kafka, [re.compile("^o"), re.compile("e"), "one"], in_order=False)[0].endswith(
        "2 of them as expected"
    )


def test_an_assertion_waits_for_the_records_and_fails_at_once_if_they_cannot_come(mock_kafka: MockKafka) -> None:
    late = threading.Timer(0.1, lambda: mock_kafka.produce("orders", value="late"))
    late.start()
    mock_kafka.assert_records("orders", ["late"], timeout=10)
    late.join()
    with pytest.raises(Difference):
        mock_kafka.assert_records("orders", ["other"], timeout=60)
    with pytest.raises(Difference, match=r"differ \(no topic has this name; did you mean 'orders'\?\)|did you mean 'orders'"):
        mock_kafka.assert_records("oders", ["late"], timeout=0.01)
    with pytest.raises(NoSuchTopic, match="did you mean 'orders'"):
        mock_kafka.assert_records("oders", [])
    with pytest.raises(TypeError, match="an expected key, value or header must be bytes, a text, a dict"):
        mock_kafka.assert_records("orders", [5])


def test_partitions_are_read_in_turn_or_alone(mock_kafka: MockKafka) -> None:
    mock_kafka.produce("wide", value="a", partition=1)
    mock_kafka.produce("wide", value="b", partition=0)
    mock_kafka.assert_records("wide", ["b", "a"])
    mock_kafka.assert_records("wide", ["a"], partition=1)
    with pytest.raises(Difference, match="accepts any order; records of different partitions have no fixed order"):
        mock_kafka.assert_records("wide", ["a", "b"])


# Over HTTP


@pytest.mark.mock_kafka(control=True)
def test_other_languages_compare_records_over_http(mock_kafka: MockKafka) -> None:
    control = ControlClient(mock_kafka.control_url)
    new = [{"key": "k", "value": {"json": {"id": 1, "to": {"zip": "1"}}}, "headers": [{"name": "h", "value": {"json": 5}}]},
           {"value": {"json": None}}, {"value": None}]  # fmt: skip
    control.ask("POST", "/topics/orders/records", {"records": new})
    exact = [{"key": "k", "value": {"json": {"id": 1, "to": {"zip": "1"}}}, "headers": {"h": "5"}},
             {"value": {"json": None}}, {"value": None, "key": None}]  # fmt: skip
    assert control.ask("POST", "/topics/orders/records/assert", {"records": exact}) == {"records": 3}
    loose = [{"value": None}, {}, {"key": {"base64": "aw=="}, "value": {"json_subset": {"to": {"zip": "1"}}}}]
    words = {"records": loose, "in_order": False, "partition": 0}
    assert control.ask("POST", "/topics/orders/records/assert", words) == {"records": 3}
    words = {"records": [{"value": {"regex": "zip.*2"}}, {}, {"headers": {"h": {"text": "x"}}}], "timeout": 0.01}
    told = control.refused("POST", "/topics/orders/records/assert", words)
    assert (told["status"], told["detail"].splitlines()[:2]) == (409, [
        "the records of 'orders' differ: 3 expected, 3 found, 1 of them as expected",
        "  0: expected record(value=a text with /zip.*2/)",
    ])  # fmt: skip
    for wrong, field in ((["regex"], "records[0].value"), ({"regex": "("}, "records[0].value.regex"), ({}, "records[0].value")):
        assert control.refused("POST", "/topics/orders/records/assert", {"records": [{"value": wrong}]})["field"] == field
    assert control.refused("POST", "/topics/oders/records/assert", {"records": []})["status"] == 404
    assert control.refused("POST", "/topics/orders/records/assert", {"records": [{}] * 1001})["field"] == "records"
    deep = b'{"a":' * 600 + b"1" + b"}" * 600
    mock_kafka.produce("deep", value=deep)
    asked = control.refused("POST", "/topics/deep/records/assert", b'{"records": [{"value": {"json": ' + deep + b"}}]}")
    assert asked["detail"] == "the expected JSON is nested too deeply to be compared"


@pytest.mark.mock_kafka(control=True)
def test_committed_records_groups_and_quiet_are_there_over_http(mock_kafka: MockKafka) -> None:
    write_transactions(mock_kafka)
    control = ControlClient(mock_kafka.control_url)
    assert len(control.ask("GET", "/topics/orders/records")["records"]) == 6
    (stored,) = control.ask("GET", "/topics/orders/records?committed=true")["records"]
    assert stored["value"]["text"] == "committed"
    mock_kafka.fence("open")
    page = control.ask("GET", "/topics/orders/records/wait?count=2&committed=true")
    assert [each["value"]["text"] for each in page["records"]] == ["committed", "after"]
    first = control.ask("GET", "/topics/orders/records?limit=1&committed=true")
    assert [each["value"]["text"] for each in control.ask("GET", first["next"])["records"]] == ["after"]
    late = control.refused("GET", "/topics/oders/records/wait?committed=true&timeout=0.01")
    assert late["detail"] == (
        "0 of 1 records were committed in 'oders' (no topic has this name; did you mean 'orders'?) within 0.01 s"
    )
    control.ask("GET", "/quiet/wait?seconds=0.05")
    assert "no group 'a/wait'" in control.refused("GET", "/groups/a/wait")["detail"]
    reader = consumer(mock_kafka)
    assert reader.poll(10) is not None
    assert control.ask("POST", "/groups/team/wait", {"members": 1})["state"] == "Stable"
    assert "behind" in control.refused("POST", "/groups/team/wait", {"lag": 0, "timeout": 0.01})["detail"]
    reader.commit()
    committed = {"committed": [{"topic": "orders", "partition": 0, "offset": 1}]}
    assert control.ask("POST", "/groups/team/wait", committed)["offsets"][0]["offset"] >= 1
    reader.close()


# Waits


def consumer(kafka: MockKafka, **settings: Any) -> Consumer:
    made = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "team", "auto.offset.reset": "earliest",
                     "enable.auto.commit": False} | settings)  # fmt: skip
    made.subscribe(["orders"])
    return made


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_waited_for(protocol: str, mock_kafka: MockKafka) -> None:
    write_transactions(mock_kafka)
    with pytest.raises(TimeoutError, match="there was no group 'taem' within 0.01 s"):
        mock_kafka.wait_for_group("taem", timeout=0.01)
    reader = consumer(mock_kafka, **{"group.protocol": protocol})
    assert reader.poll(10).value() == b"committed"
    group = mock_kafka.wait_for_group("team", members=1)
    assert (group.state, len(group.members)) == ("Stable", 1)
    with pytest.raises(TimeoutError, match="the group 'team' had 1 of 2 members within"):
        mock_kafka.wait_for_group("team", members=2, timeout=0.01)
    with pytest.raises(TimeoutError, match="the group 'team' was behind in orders-0 by 1 within"):
        mock_kafka.wait_for_group("team", lag=0, timeout=0.01)
    with pytest.raises(TimeoutError, match="there was no group 'taem'; did you mean 'team'. within"):
        mock_kafka.wait_for_group("taem", lag=0, timeout=0.01)
    reader.commit()
    mock_kafka.wait_for_group("team", lag=0)  # the marker after the record is not a readable record
    mock_kafka.wait_for_group("team", committed={("orders", 0): 1})
    with pytest.raises(TimeoutError, match="had committed offset [12] of orders-0, not 9 within"):
        mock_kafka.wait_for_group("team", committed={("orders", 0): 9}, timeout=0.01)
    mock_kafka.fence("open")
    with pytest.raises(TimeoutError, match="was behind in orders-0 by 1"):
        mock_kafka.wait_for_group("team", lag=0, timeout=0.01)
    reader.close()
    with pytest.raises(TimeoutError, match="the group 'team' was Empty within"):
        mock_kafka.wait_for_group("team", timeout=0.01)


def test_a_broker_is_quiet_when_nothing_is_stored_any_more(mock_kafka: MockKafka) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.01):
            mock_kafka.produce("orders", value="x")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(TimeoutError, match="the broker was not quiet for 0.2 s, because logs still changed, within 0.5 s"):
            mock_kafka.wait_until_quiet(timeout=0.5)
    finally:
        stop.set()
        writer.join()
    count = len(mock_kafka.records("orders"))
    mock_kafka.wait_until_quiet(0.1)
    assert len(mock_kafka.records("orders")) == count


@pytest.mark.asyncio
async def test_every_wait_has_a_twin_for_async_code() -> None:
    async with MockKafka(topics="orders") as kafka:
        asyncio.get_running_loop().call_later(0.05, lambda: kafka.produce("orders", value="x"))
        assert len(await kafka.assert_records_async("orders", ["x"])) == 1
        await kafka.wait_until_quiet_async(0.01)
        with pytest.raises(TimeoutError, match="no group 'team'"):
            await kafka.wait_for_group_async("team", timeout=0.01)
        for call in (lambda: kafka.assert_records("orders", ["x"]), kafka.wait_until_quiet, lambda: kafka.wait_for_group("g")):
            with pytest.raises(RuntimeError, match=r"would block the event loop that runs here; await kafka\.\w+_async"):
                call()
