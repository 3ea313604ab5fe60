"""A rule: which requests it is for, which of those it strikes, and what happens to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from kafkawire.errors import ErrorCode
from kafkawire.registry import KEYS, versions
from wirebroker.requests.facts import Batch, Facts, can_name
from wirebroker.requests.parts import Where

if TYPE_CHECKING:
    from kafkawire.declare import Message

Kind = Literal[
    "lose_request", "lose_ack", "error", "delay", "disconnect", "throttle", "reorder", "answer",
    "cut", "slice", "bandwidth", "corrupt", "reset", "refuse", "close",
    "fail_write", "slow_write", "disk_full", "crash_after_write",
    "expire_producer", "expire_transactional_id", "fence", "restart", "truncate", "lose_coordinator",
]  # fmt: skip
Answerer = Callable[[Facts, "Message"], "Message | None"]
BATCH_FIELDS = ("producer_id", "producer_epoch", "sequence")
WIRE: frozenset[Kind] = frozenset({"cut", "slice", "bandwidth", "corrupt", "close"})
"""What happens to an answer on its way over the network."""
WRITES: frozenset[Kind] = frozenset({"fail_write", "slow_write", "disk_full", "crash_after_write"})
"""What happens to the batches of a Produce when they are written."""
TEXTS = ("api", "topic", "client_id", "transactional_id", "group")
"""Words that are text; the others are numbers."""
LISTS = ("api", "version", "sequence", "nth")
"""Words that may be several."""
HEADER_WORDS = ("api", "version", "client_id", "node")
"""What is known of a request before it has arrived."""
COORDINATED = (
    "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
    "OffsetDelete", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "DescribeGroups", "DeleteGroups",
    "TxnOffsetCommit", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions",
)  # fmt: skip
"""The APIs that only a coordinator answers, and the one that finds it."""


class FaultError(ValueError):
    """A rule that cannot be meant; `word` is the one of its words to change."""

    def __init__(self, word: str, sentence: str) -> None:
        super().__init__(sentence)
        self.word = word


class NotFired(AssertionError):
    """A rule did not strike as often as it should have."""


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests a rule is for; what is None matches everything. Lists mean "one of these", pairs "from, to"."""

    api: Sequence[str] | None = None
    version: tuple[int, int] | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    node: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: tuple[int, int] | None = None
    transactional_id: str | None = None
    group: str | None = None

    def header_fits(self, facts: Facts) -> bool:
        """Whether the request is one that the rule is for, by what its header says and the broker that it came to."""
        if self.api is not None and facts.api not in self.api:
            return False
        if self.version is not None and not self.version[0] <= facts.version <= self.version[1]:
            return False
        return _fits(self.client_id, facts.client_id) and _fits(self.node, facts.node)

    def struck(self, facts: Facts) -> list[Batch | None]:
        """What of the request matches: for Produce its matching batches, for anything else the request (None) once."""
        if not self.header_fits(facts):
            return []
        if self.transactional_id is not None and self.transactional_id not in facts.transactional_ids:
            return []
        if self.group is not None and self.group not in facts.groups:
            return []
        if facts.api == "Produce":
            return [batch for batch in facts.batches if self._batch_fits(batch)]
        return [None] if self._request_fits(facts) else []

    def _batch_fits(self, batch: Batch) -> bool:
        if self.sequence is not None:
            first, last = self.sequence
            if batch.first_sequence < 0 or batch.first_sequence > last or batch.last_sequence < first:
                return False
        return (
            _fits(self.topic, batch.topic)
            and _fits(self.partition, batch.partition)
            and _fits(self.producer_id, batch.producer_id)
            and _fits(self.producer_epoch, batch.producer_epoch)
        )

    def _request_fits(self, facts: Facts) -> bool:
        if self.sequence is not None:
            return False
        if self.topic is not None and self.topic not in facts.topics:
            return False
        if self.partition is not None and not any(
            index == self.partition and _fits(self.topic, topic) for topic, index in facts.partitions
        ):
            return False
        producer_id, producer_epoch = facts.producer or (None, None)
        return _fits(self.producer_id, producer_id) and _fits(self.producer_epoch, producer_epoch)


def _fits(wanted: Any, found: Any) -> bool:
    return wanted is None or wanted == found


@dataclass(frozen=True, slots=True)
class Count:
    """Which of the matching ones are struck: the nth (from 1), every kth, each with a probability; at most `times`."""

    nth: tuple[int, ...] = ()
    every: int | None = None
    probability: float | None = None
    times: int | None = None


@dataclass(slots=True, eq=False)
class Rule:
    """A fault that is waiting to happen. `seen` counts what matched, `fired` what was struck."""

    kind: Kind
    match: Match
    count: Count
    options: dict[str, Any] = field(default_factory=dict)
    answer: Answerer | None = None
    name: str = ""
    seen: int = 0
    fired: int = 0

    @property
    def cuts_requests(self) -> bool:
        """Whether it is decided on while the request arrives."""
        return self.kind == "cut" and bool(self.options.get("request"))

    @property
    def apis(self) -> Iterable[str]:
        """The APIs whose requests it may strike."""
        if self.kind == "refuse":
            return ()
        return self.match.api or (COORDINATED if self.kind == "lose_coordinator" else KEYS)

    @property
    def needs_answer(self) -> bool:
        """Whether it is the answer that it strikes; a Produce with acks=0 has none."""
        return (
            (self.kind in WIRE and not self.cuts_requests)
            or self.kind in ("lose_ack", "throttle")
            or bool(self.options.get("after"))
        )

    def matched(self, facts: Facts) -> list[Batch | None]:
        """What of the request it is for: batches of a Produce, or the request (None) once."""
        if self.cuts_requests:
            return [None] if self.match.header_fits(facts) else []
        if self.kind == "refuse" or (self.needs_answer and facts.acks == 0):
            return []
        if self.kind == "lose_coordinator":
            coordinated = facts.api in COORDINATED and bool(facts.groups or facts.transactional_ids)
            return [None] if coordinated and self.match.struck(facts) else []
        return self.match.struck(facts)

    def strikes(self, chance: Callable[[], float]) -> bool:
        """Count one more that matched; whether it is struck. `chance()` is at least 0 and less than 1."""
        self.seen += 1
        count = self.count
        if count.times is not None and self.fired >= count.times:
            return False
        if count.nth:
            hit = self.seen in count.nth
        elif count.every is not None:
            hit = self.seen % count.every == 0
        else:
            hit = count.probability is None or chance() < count.probability
        self.fired += hit
        return hit

    def assert_fired(self, times: int | None = None) -> None:
        """NotFired unless it has struck: at least once, or exactly so often."""
        if self.fired == times or (times is None and self.fired):
            return
        wanted = "at all" if times is None else f"{times} times"
        raise NotFired(
            f"the rule {self} did not fire {wanted}: it matched {self.seen} and struck {self.fired}"
            f"{'' if self.seen else '; nothing that came was what it is for'}"
        )

    def __str__(self) -> str:
        parts = [f"{name}={_shown(value)}" for name, value in self.described().items() if name != "kind"]
        return f"{self.kind}({', '.join(parts)})"

    def described(self) -> dict[str, Any]:
        """The rule in the words of a fault file."""
        said: dict[str, Any] = {"kind": self.kind}
        for part in (self.match, self.count):
            for key in part.__slots__:
                value = getattr(part, key)
                if value not in (None, ()):
                    said[key] = _plain(value)
        return said | self.options | ({"name": self.name} if self.name else {})


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return value[0] if len(value) == 1 or (len(value) == 2 and value[0] == value[1]) else list(value)
    return value


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


# Making rules of what users say


def make(kind: Kind, words: dict[str, Any], options: dict[str, Any], answer: Answerer | None = None) -> Rule:
    """A rule from the words that every kind has in common. Raises FaultError."""
    known = {*Match.__slots__, *Count.__slots__, "name"}
    for word in words:
        if word not in known:
            raise FaultError(word, f"{kind} knows no {word!r}{_nearest(word, known)}")
    if kind in WRITES:
        words = {"api": "Produce"} | words
    given = {word: value for word, value in words.items() if value is not None}
    read = {word: _read(word, value) for word, value in given.items() if word != "name"}
    match = Match(**{word: value for word, value in read.items() if word in Match.__slots__})
    count = Count(**{word: value for word, value in read.items() if word in Count.__slots__})
    _check(kind, match, count)
    _check_what_it_is_for(kind, match, options)
    return Rule(kind, match, count, options, answer, given.get("name", ""))


def _read(word: str, value: Any) -> Any:
    """What a word says, in the form in which it is matched. Raises FaultError."""
    many = list(value) if isinstance(value, list | tuple | range) else [value]
    kind = {"api": str, "probability": float}.get(word) or (str if word in TEXTS else int)
    if word not in LISTS and many != [value]:
        raise FaultError(word, f"{word} cannot be {value!r}")
    for each in many:
        if not isinstance(each, (int, float) if kind is float else kind) or isinstance(each, bool):
            raise FaultError(word, f"{word} cannot be {each!r}")
    if not many:
        raise FaultError(word, f"{word} is empty, which would match nothing")
    if word in ("version", "sequence"):
        if len(many) > 2:
            raise FaultError(word, f"{word} is one number, or the first and the last, not {value!r}")
        return many[0], many[-1]
    if word == "api":
        return tuple(_api(each) for each in many)
    return tuple(many) if word == "nth" else value


def _api(name: str) -> str:
    for known in KEYS:
        if known.lower() == name.lower():
            return known
    raise FaultError("api", f"there is no API {name!r}{_nearest(name, KEYS)}")


def _check(kind: Kind, match: Match, count: Count) -> None:
    """Refuse what can never match, or contradicts itself."""
    ways = [word for word in ("nth", "every", "probability") if getattr(count, word) not in (None, ())]
    if len(ways) > 1:
        raise FaultError(ways[0], f"{kind}: {' and '.join(ways)} are two ways of counting; give one of them")
    if count.nth and min(count.nth) < 1:
        raise FaultError("nth", f"{kind}: nth counts from 1, not from {min(count.nth)}")
    if count.every is not None and count.every < 1:
        raise FaultError("every", f"{kind}: every {count.every}th is none")
    if count.probability is not None and not 0 < count.probability <= 1:
        raise FaultError("probability", f"{kind}: a probability is more than 0 and at most 1, not {count.probability}")
    if count.times is not None and count.times < 1:
        raise FaultError("times", f"{kind}: a rule that strikes {count.times} times is none")
    if match.partition is not None and match.partition < 0:
        raise FaultError("partition", f"{kind}: there is no partition {match.partition}")
    if match.sequence is not None and match.api is not None and "Produce" not in match.api:
        raise FaultError("api", f"{kind}: only a Produce has sequences, and this rule is for {', '.join(match.api)}")
    for word in ("group", "transactional_id", "producer_id", "producer_epoch"):
        if getattr(match, word) is not None and match.api and not any(can_name(api, word) for api in match.api):
            raise FaultError(word, f"{kind}: no request of {', '.join(match.api)} says a {word}")
    for word, pair in (("version", match.version), ("sequence", match.sequence)):
        if pair is not None and pair[0] > pair[1]:
            raise FaultError(word, f"{kind}: {word} from {pair[0]} to {pair[1]} is empty")
    _check_versions(kind, match)


def _check_versions(kind: Kind, match: Match) -> None:
    """Refuse versions that no request has that the rule is for."""
    if match.version is None:
        return
    newest = max(versions(KEYS[api])[1] for api in match.api or KEYS)
    if match.version[0] > newest or match.version[1] < 0:
        of = ", ".join(match.api) if match.api else "any API"
        raise FaultError("version", f"{kind}: there is no version {match.version[0]} of {of}; the newest is {newest}")


def _check_what_it_is_for(kind: Kind, match: Match, options: dict[str, Any]) -> None:
    """Refuse words that say nothing for this kind."""
    said = [word for word in Match.__slots__ if getattr(match, word) is not None]
    if kind == "refuse" and (extra := [word for word in said if word != "node"]):
        raise FaultError(extra[0], f"refuse: a connection that is not made yet has no {extra[0]}; only its node is known")
    if kind == "cut" and options.get("request") and (extra := [word for word in said if word not in HEADER_WORDS]):
        known = ", ".join(HEADER_WORDS)
        raise FaultError(extra[0], f"cut: of a request that has not arrived only {known} are known, not {extra[0]}")
    if kind in WRITES and match.api != ("Produce",):
        raise FaultError("api", f"{kind}: only a Produce writes, and this rule is for {', '.join(match.api or ())}")
    if kind == "lose_coordinator" and (other := [api for api in match.api or () if api not in COORDINATED]):
        raise FaultError("api", f"lose_coordinator: {other[0]} has no coordinator")
    if kind == "truncate" and (match.topic is None or match.partition is None):
        raise FaultError("topic" if match.topic is None else "partition", "truncate needs a topic and a partition")


def error_code(value: int | str) -> int:
    """An error code by its number or its name. FaultError for a name that Kafka does not have, or what is no int16."""
    if isinstance(value, int):
        if not -(2**15) <= value < 2**15:
            raise FaultError("code", f"an error code has 16 bits, and {value} does not fit")
        return int(value)
    try:
        return int(ErrorCode[value.upper()])
    except KeyError:
        raise FaultError("code", f"there is no error {value!r}{_nearest(value.upper(), ErrorCode.__members__)}") from None


def _nearest(word: str, known: Any) -> str:
    close = get_close_matches(word, list(known), 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; it knows {', '.join(sorted(known))}"


def partitions_of(struck: Sequence[Batch | None], rule: Rule, facts: Facts) -> Where | None:
    """The partitions that a rule names in this request; None if it is for the request as a whole."""
    if struck and struck[0] is not None:
        whole = len(struck) == len(facts.batches)
        return None if whole else frozenset((b.topic, b.partition) for b in struck if b is not None)
    if rule.match.topic is None and rule.match.partition is None:
        return None
    if not facts.partitions:
        return frozenset((topic, None) for topic in facts.topics if _fits(rule.match.topic, topic))
    return frozenset(
        (topic, index)
        for topic, index in facts.partitions
        if _fits(rule.match.topic, topic) and _fits(rule.match.partition, index)
    )
