"""The filters of trace rows."""

from __future__ import annotations

import re
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

import pytest

from kafkawire.errors import ErrorCode
from wirebroker.common.suggestions import did_you_mean
from wirebroker.requests.facts import Batch, Facts
from wirebroker.trace.filters import FilterError, contradiction, parsed
from wirebroker.trace.recorder import NAMED, names_of
from wirebroker.trace.rows import EVENTS, FaultRow, FetchRow, GroupRow, ReplyRow, Row, TransactionRow

REPLY = ReplyRow(1000, 1, 7, "billing", "librdkafka/2.8", "Produce", 9, 3, 57, 62, (), ("orders-0", "transaction pay-1"),
                 waited=50, principal="User:alice", client_host="10.0.0.9")  # fmt: skip
FAILED = ReplyRow(1001, 1, 7, "load", "", "JoinGroup", 7, 4, 20, 150, ("MEMBER_ID_REQUIRED",), ("group g-1",),
                  details={"reason": "poll timeout", "session_timeout_ms": 45_000})  # fmt: skip
FETCH = FetchRow(1002, 2, 8, None, "", 12, 1, "orders-2025", 3, 10, 0, 9, 9, 0, True, 6, "NOT_LEADER_OR_FOLLOWER")
FAULT = FaultRow(1003, 1, 7, "billing", "Produce", 9, 3, "lose_ack", "lose_ack(topic=orders)", ("orders-0",), 1)
TRANSACTION = TransactionRow("pay-1", 4, 0, "Ongoing", ("orders-0",), time=1004)
GROUP = GroupRow("g-1", "Stable", 3, 2, time=1005)
ROWS: dict[str, Row] = {
    "reply": REPLY, "failed": FAILED, "fetch": FETCH, "fault": FAULT, "transaction": TRANSACTION, "group": GROUP,
}  # fmt: skip
FOUND = [
    ("", "reply failed fetch fault transaction group"),
    ("api=Produce", "reply fault"),
    ("api=produce error=NONE", "reply"),
    ("error!=NONE", "failed fetch"),
    ("api!=Produce", "failed fetch transaction group"),
    ("topic=orders", "reply fault transaction"),
    ("topic=orders-2025 or topic=orders-0", "reply fetch fault transaction"),
    ("topic~2025 partition=3", "fetch"),
    ("transaction=pay-1", "reply transaction"),
    ("group=g-1", "failed group"),
    ("latency>=12 latency<150", "reply"),
    ("latency>12.5", "failed"),
    ("committed=true", "fetch"),
    ("client=billing and not event=fault", "reply"),
    ("not (client=billing or client=load)", "fetch transaction group"),
    ("client!~bill", "failed fetch transaction group"),
    ("member_id", "failed"),
    ('"lose_ack(topic"', "fault"),
    ('software=""', "failed fetch"),
    ("producer=4", "transaction"),
    ("principal=User:alice", "reply"),
    ("host~10.0 or software=none", "reply"),
    ("reason~timeout", "failed"),
    ("session_timeout_ms>=45000", "failed"),
    ("waited>0", "reply"),
    ("error=NONE", "reply"),
    ("error!~leader error!=NONE", "failed"),
    ("event=group or event=fetch and code=6", "fetch group"),
]
"""Filters, and the rows that each must match."""


@pytest.mark.parametrize(("text", "names"), FOUND)
def test_a_filter_chooses_rows(text: str, names: str) -> None:
    wanted = parsed(text)
    assert [name for name, row in ROWS.items() if wanted.has(row)] == names.split()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("apj=Produce", "no row has a field 'apj'; did you mean 'api'?"),
        ("latency<soon", "latency< needs a number, not 'soon'"),
        ("latency<1_0", "latency< needs a number, not '1_0'"),
        ("topic=", 'topic= needs a value; write topic="" for an empty value'),
        ("a (b or c", "the filter has a ( without a )"),
        ("a) b", "the filter has a ) without a (, at character 2"),
        ("=3", "the filter needs a field or a word at character 1, as in api=Produce"),
        ("a or", "the filter needs a field or a word at its end, as in api=Produce"),
        ('topic="orders', 'character 7 begins a quoted text that has no second "'),
        ("(" * 5000, "a filter has at most 2000 characters, not 5000"),
        ("(" * 1000, "a filter may be nested at most 50 deep"),
        ("not " * 100 + "a", "a filter may be nested at most 50 deep"),
    ],
)
def test_a_wrong_filter_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(FilterError) as refused:
        parsed(text)
    assert str(refused.value) == sentence


MATCHED = FaultRow(
    1006, 1, 7, "billing", "Produce", 9, 3, "lose_ack", "lose_ack(topic=orders)", (), 1, Batch("orders", 0, 4, 0, 5, 5, 1)
)
FOUND_BY_ITS_BATCH = [("topic=orders partition=0", True), ("producer=4", True), ("producer=5", False), ("object", False)]
"""Filters. For each filter: whether it must match the row `MATCHED` because of the row's batch."""


@pytest.mark.parametrize(("text", "met"), FOUND_BY_ITS_BATCH)
def test_a_fault_is_found_by_the_batch_that_it_matched(text: str, met: bool) -> None:
    assert parsed(text).has(MATCHED) is met


def test_no_field_holds_numbers_in_some_rows_and_texts_in_others() -> None:
    """The live page searches for words only in fields whose values are texts."""
    for row in EVENTS.values():
        unions = [set(get_args(kind)) for kind in get_type_hints(row).values() if get_origin(kind) is UnionType]
        assert unions or row.event not in ("produce", "reply")
        assert not [kinds for kinds in unions if kinds & {int, float} and kinds - {int, float, NoneType}]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("event=authentication client=foo", "rows of the event authentication have no client"),
        ("event=fetch member_id=m", "rows of the event fetch have no member_id"),
        ("event=fetch host=10.0.0.9 client=foo", ""),
        ("event=reply member_id=m", ""),
        ("event=authentication client!=foo", ""),
        ("event=authentication or client=foo", ""),
        ("event=group topic=orders", ""),
    ],
)
def test_a_filter_that_no_row_can_meet_says_why(text: str, sentence: str) -> None:
    assert contradiction(parsed(text)) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("api=Prodce", "there is no api 'Prodce'; did you mean 'Produce'?"),
        ("api!=fech", "there is no api 'fech'; did you mean 'Fetch'?"),
        ("event=prodce", "there is no event 'prodce'; did you mean 'produce'?"),
        ("topic=a or verdict=duplicated", "there is no verdict 'duplicated'; did you mean 'duplicate'?"),
        ("error=NOT_LEADR", "there is no error 'NOT_LEADR'; did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
    ],
)
def test_a_misspelt_name_in_a_filter_gets_the_nearest_one(text: str, sentence: str) -> None:
    with pytest.raises(FilterError) as refused:
        parsed(text)
    assert str(refused.value) == sentence
    assert parsed(text.replace("=", "~").replace("!", ""))


def test_the_beginning_of_a_name_with_a_wrong_letter_is_recognised() -> None:
    """For every error, the test takes the first two words of the error's name, then the first three words, and so on. Each
    time, it leaves out the second letter."""
    missed = []
    for name in ErrorCode.__members__:
        for end in [at for at, letter in enumerate(name + "_") if letter == "_"][1:]:
            word = name[:1] + name[2:end]
            advice = did_you_mean(word, ErrorCode.__members__)
            if not re.match(f"; did you mean '{re.escape(name[:end])}", advice):
                missed.append((word, name, advice))
    assert missed == []


def test_many_partitions_do_not_displace_the_group() -> None:
    many = frozenset(("orders", index) for index in range(20))
    named = names_of(Facts("OffsetCommit", 9, None, 1, 1, frozenset({"orders"}), many, frozenset({"shipping"})))
    assert named[-2:] == ("group shipping", "13 more")
    assert len(named) == NAMED + 1
    few = names_of(
        Facts("OffsetCommit", 9, None, 1, 1, frozenset({"orders"}), frozenset({("orders", 0)}), frozenset({"shipping"}))
    )
    assert few == ("orders-0", "group shipping")
    everything = Facts("Metadata", 9, None, 1, 1, frozenset({"a"}), frozenset(), frozenset(f"g{at}" for at in range(20)))
    assert names_of(everything)[0] == "a"
