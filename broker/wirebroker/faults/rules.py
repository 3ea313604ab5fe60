"""Fault rules. A rule has three parts: the words that a request must fit, the matches on which the rule fires, and the effect.

Each kind of fault is one subclass of `Rule` (see `kinds`). The annotations of the subclass are the options of the fault, the
methods carry out the fault, and the docstring is the text in the documentation. All other forms are derived from the class: the
call in Python, the table [[fault]] in a fault file, the JSON of the control endpoint, the JSON schema and the table in
docs/how-to/faults.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, dataclass_transform, get_origin, get_type_hints

from msgspec import Meta, Struct

from kafkawire.registry import KEYS, versions
from wirebroker.common.suggestions import nearest
from wirebroker.faults.forms import FaultError, check_value
from wirebroker.faults.misses import Misfit, Misses
from wirebroker.requests.facts import Batch, Facts, can_name
from wirebroker.requests.parts import Where

if TYPE_CHECKING:
    from kafkawire.declare import Message
    from kafkawire.names import ApiName
    from wirebroker.deeds.broker import EngineBroker
    from wirebroker.faults.acts import Greeting, Injection, OutgoingResponse
    from wirebroker.requests.effects import Outcome

__tracebackhide__ = True  # pytest shows the caller's line

if not TYPE_CHECKING:
    ApiName = str  # upper and lower case do not matter; type checkers accept only Kafka's spelling

KINDS: dict[str, type[Rule]] = {}
"""Every kind of fault by its name, in the order of declaration."""
NonNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
HEADER_WORDS = ("api", "version", "client_id", "node")
"""The words that can be checked as soon as the header of a request has arrived."""


class InjectionPoint(Enum):
    """The moment at which a rule acts."""

    HANDSHAKE = "when a TLS handshake begins"
    CONNECTION = "when a connection is made"
    ARRIVAL = "when a part of a request has arrived"
    REQUEST = "before the request is handled"
    RESPONSE = "when the response is made"
    WIRE = "when the response is sent"


class NotFired(AssertionError):
    """Raised if a rule did not fire as often as expected."""


class Match(Struct, frozen=True):
    """The conditions under which a rule matches a request. None means any value, a list means one of several values, and a pair
    means a range."""

    api: tuple[str, ...] | None = None
    version: tuple[int, int] | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    principal: str | None = None
    node: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: tuple[int, int] | None = None
    transactional_id: str | None = None
    group: str | None = None

    def header_fits(self, facts: Facts) -> bool:
        """Tells whether the rule matches the request's header and the broker that got the request."""
        return next(self._header_misfits(facts), None) is None

    def matching(self, facts: Facts) -> list[Batch | None]:
        """Returns the matching batches of a Produce, or `[None]` for any other request that matches."""
        if not self.header_fits(facts):
            return []
        return [each for each in _parts(facts) if next(self._misfits(facts, each), None) is None]

    def missing(self, facts: Facts) -> list[list[Misfit]]:
        """Returns lists of the words that do not fit the request: for a Produce one list for each batch, for any other request
        a single list. If the rule is for other APIs, returns an empty list."""
        if self.api is not None and facts.api not in self.api:
            return []
        return [[*self._header_misfits(facts), *self._misfits(facts, each)] for each in _parts(facts)]

    def _header_misfits(self, facts: Facts) -> Iterator[Misfit]:
        if self.api is not None and facts.api not in self.api:
            yield "api", (facts.api,)
        if self.version is not None and not self.version[0] <= facts.version <= self.version[1]:
            yield "version", (facts.version,)
        if not _fits(self.client_id, facts.client_id):
            yield "client_id", (facts.client_id,)
        if not _fits(self.node, facts.node):
            yield "node", (facts.node,)

    def _misfits(self, facts: Facts, batch: Batch | None) -> Iterator[Misfit]:
        if not _fits(self.principal, facts.principal):
            yield "principal", (facts.principal,)
        if self.transactional_id is not None and self.transactional_id not in facts.transactional_ids:
            yield "transactional_id", tuple(facts.transactional_ids)
        if self.group is not None and self.group not in facts.groups:
            yield "group", tuple(facts.groups)
        yield from self._request_misfits(facts) if batch is None else self._batch_misfits(batch)

    def _batch_misfits(self, batch: Batch) -> Iterator[Misfit]:
        if self.sequence is not None:
            first, last = self.sequence
            if batch.first_sequence < 0 or batch.first_sequence > last or batch.last_sequence < first:
                yield "sequence", (batch.first_sequence,)
        for word in ("topic", "partition", "producer_id", "producer_epoch"):
            if not _fits(getattr(self, word), found := getattr(batch, word)):
                yield word, (found,)

    def _request_misfits(self, facts: Facts) -> Iterator[Misfit]:
        if self.sequence is not None:
            yield "sequence", ()
        if self.topic is not None and self.topic not in facts.topics:
            yield "topic", tuple(facts.topics)
        if self.partition is not None and not any(
            index == self.partition and _fits(self.topic, topic) for topic, index in facts.partitions
        ):
            yield "partition", tuple(index for topic, index in facts.partitions if _fits(self.topic, topic))
        producer = facts.producer or (None, None)
        for word, found in zip(("producer_id", "producer_epoch"), producer, strict=True):
            if not _fits(getattr(self, word), found):
                yield word, (found,)


def _parts(facts: Facts) -> Sequence[Batch | None]:
    """Returns the parts of a request that count as separate matches: the batches of a Produce, or a single None for any other
    request."""
    return facts.batches if facts.api == "Produce" else (None,)


def _fits(wanted: Any, found: Any) -> bool:
    return wanted is None or wanted == found


class Count(Struct, frozen=True):
    """Chooses the matches on which a rule fires: the `nth` matches (counted from 1), every k-th match (`every`), or each match
    with a `probability`. The rule fires at most `times` times.
    """

    nth: tuple[int, ...] | None = None
    every: int | None = None
    probability: float | None = None
    times: int | None = None


@dataclass_transform(eq_default=False)
class _Declared:
    """This base class shows type checkers that the annotations of a kind are the arguments of its call."""

    def __init_subclass__(cls, kw_only: bool = False) -> None:
        pass


class Rule(_Declared, kw_only=True):
    """A fault and the conditions under which it acts. `seen` is the number of matches, and `fired` is the number of matches on
    which the rule fired.

    Creating a rule that could never fire raises FaultError, a ValueError that names the wrong word.
    """

    api: ApiName | Annotated[Sequence[ApiName], Meta(min_length=1)] | None = None
    version: int | Annotated[Sequence[int], Meta(min_length=1, max_length=2)] | None = None
    topic: str | None = None
    partition: NonNegative | None = None
    client_id: str | None = None
    principal: str | None = None
    node: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | Annotated[Sequence[int], Meta(min_length=1, max_length=2)] | None = None
    transactional_id: str | None = None
    group: str | None = None
    nth: Positive | Annotated[Sequence[Positive], Meta(min_length=1)] | None = None
    every: Positive | None = None
    probability: Annotated[float, Meta(gt=0, le=1)] | None = None
    times: Positive | None = None
    name: str = ""

    kind: ClassVar[str]
    acts_at: ClassVar[InjectionPoint] = InjectionPoint.REQUEST
    """The injection point at which the rule acts if it does not have the option `after`."""
    only_apis: ClassVar[tuple[str, ...] | None] = None
    """The APIs to which the kind applies, or None for all APIs."""
    match_words: ClassVar[tuple[str, ...]] = Match.__struct_fields__
    """The words that determine which requests the rule matches."""
    needed: ClassVar[tuple[str, ...]] = ()
    """The words that must be given, in addition to the options that have no default."""
    needs_broker: ClassVar[bool] = False
    """Tells whether the rule acts inside a broker. A proxy cannot load such a rule."""
    may_miss: ClassVar[bool] = False
    """Tells whether the rule may find nothing to do when it fires. Such a rule calls `Injection.report` itself."""
    in_files: ClassVar[bool] = True
    """Tells whether a fault file can contain the rule."""
    example: ClassVar[str]
    """A call that creates a rule of this kind, for the documentation."""

    def __init_subclass__(cls, kw_only: bool = False) -> None:
        cls.kind = cls.__name__
        KINDS[cls.kind] = cls

    def __init__(self, /, *given: Any, **words: Any) -> None:
        hints, kind, options = words_of(type(self)), self.kind, options_of(type(self))
        if len(given) > len(options) or any(option in words for option in options[: len(given)]):
            only = ", ".join(map(repr, options)) or "nothing"
            raise TypeError(f"{kind} takes only {only} by position, each once; give all other words by name")
        words = dict(zip(options, given, strict=False)) | words
        for word in words:
            if word not in hints:
                raise FaultError(word, f"{kind} has no option {word!r}{nearest(word, sorted(hints))}")
        words = {word: value for word, value in words.items() if value is not None}
        for word, value in words.items():
            check_value(kind, word, value, hints[word])
        for word in needed_by(type(self)):
            if word not in words:
                raise FaultError("kind", f"{kind} needs {word!r}")
        if self.only_apis is not None and len(self.only_apis) == 1:
            words.setdefault("api", self.only_apis)
        vars(self).update(words)
        read = {word: _READ.get(word, _same)(value) for word, value in words.items()}
        self.match = Match(**{word: read[word] for word in Match.__struct_fields__ if word in read})
        self.count = Count(**{word: read[word] for word in Count.__struct_fields__ if word in read})
        self.seen = self.fired = 0
        self.added = False
        self.loaded_at = 0
        """The time at which the rule was loaded, in ms since the epoch."""
        self.missed = ""
        """The reason why the rule could not act when it fired, or ""."""
        self.wait_until: Callable[[Callable[[], bool], float], None] | None = None
        """Waits for a condition in the broker that has the rule. Raises TimeoutError."""
        self.copied = False
        """Tells whether this rule was copied. If so, brokers have loaded the copies instead of the rule itself."""
        self.misses: Misses | None = None
        """The requests that arrived after the rule was loaded, and that the rule did not match. If the rule was never loaded,
        this is None."""
        self._check_rule()
        self.check_options()

    # Acts and checks that the kinds define

    def check_options(self) -> None:
        """Raises FaultError if the options of this kind contradict each other."""

    def check_broker(self, broker: EngineBroker) -> None:
        """Raises FaultError if the rule cannot act in the cluster into which it is loaded."""
        if self.match.node is not None and self.match.node not in broker.nodes:
            there = ", ".join(map(str, sorted(broker.nodes)))
            raise FaultError("node", f"{self.kind}: there is no node {self.match.node}; there is {there}")

    def before(self, injection: Injection) -> Message | Outcome:
        """Act on the request before it is handled. Returns the request to handle, perhaps only a part of the original request,
        or the outcome."""
        raise NotImplementedError

    def change(self, injection: Injection) -> bool | None:
        """Change storage or state before the request is handled. A kind that defines this method does not change the request
        itself.

        Returns True if there was something to change. Returns None if this is known only after the request was handled. An
        exception NothingToChange from the broker counts as False.
        """
        raise NotImplementedError

    def on_response(self, injection: Injection, response: Message) -> bool:
        """Act on the response. Returns True if the response can be sent now."""
        raise NotImplementedError

    def send(self, line: OutgoingResponse) -> bool:
        """Act on the bytes of the response. Returns False if the rule found nothing to do."""
        raise NotImplementedError

    def greets(self, greeting: Greeting) -> bool:
        """Tells whether the rule matches a TLS handshake that is about to begin."""
        raise NotImplementedError

    def greet(self, greeting: Greeting) -> None:
        """Act on a TLS handshake that is about to begin."""
        raise NotImplementedError

    @property
    def injection_point(self) -> InjectionPoint:
        """The moment at which this rule acts."""
        return InjectionPoint.RESPONSE if getattr(self, "after", False) else self.acts_at

    def matching(self, facts: Facts) -> list[Batch | None]:
        """Returns the matching batches of a Produce, or `[None]` for any other request that matches."""
        return [] if self._unanswered(facts) else self.match.matching(facts)

    @property
    def arrival_bytes(self) -> int:
        """The rule acts when this many bytes of a request have arrived, including the size field (`InjectionPoint.ARRIVAL`)."""
        return 0

    @property
    def apis(self) -> Iterable[str]:
        """The APIs whose requests the rule may match."""
        return self.match.api or self.only_apis or KEYS

    # Counting

    def fires(self, chance: Callable[[], float]) -> bool:
        """Count a match. Returns True if the rule fires on the match. `chance()` returns a random number from 0 to less than
        1."""
        self.seen += 1
        count = self.count
        if count.times is not None and self.fired >= count.times:
            return False
        if count.nth:
            injection = self.seen in count.nth
        elif count.every is not None:
            injection = self.seen % count.every == 0
        else:
            injection = count.probability is None or chance() < count.probability
        self.fired += injection
        return injection

    def assert_fired(self, times: int | None = None) -> None:
        """Raises NotFired if the rule never fired. With `times`, raises NotFired unless the rule fired exactly `times`
        times."""
        if self.fired == times or (times is None and self.fired):
            return
        raise self.not_fired("at all" if times is None else f"{times} times")

    def wait_fired(self, times: int = 1, timeout: float = 5.0) -> None:
        """Wait until the rule has fired `times` times or more. Raises NotFired after `timeout` seconds."""
        try:
            if self.wait_until is not None:
                self.wait_until(lambda: self.fired >= times, timeout)
            elif self.fired < times:
                raise TimeoutError
        except TimeoutError:
            raise self.not_fired(f"{times} times within {timeout:g} s") from None

    def not_fired(self, wanted: str) -> NotFired:
        """Returns the error which says that the rule did not fire as often as expected."""
        counts = f"it fired on {self.fired} of {self.seen} matches"
        reason = self.missed if self.seen else self.why_not
        return NotFired(f"the rule {self} did not fire {wanted}: {counts}{reason and f'; {reason}'}")

    @property
    def why_not(self) -> str:
        """Returns a sentence that explains why the rule has matched no request, and which requests arrived instead."""
        if self.misses is None:
            where = "; only copies were added, which are in kafka.faults.rules" if self.copied else ""
            return f"it was never added to a broker{where}"
        return f"{self.missed or 'no request matched this rule'}; {self.misses.sentence(self.described())}"

    def note_miss(self, facts: Facts) -> None:
        """Remember why the rule did not match a request."""
        if self.misses is None:
            return
        for misfits in self.match.missing(facts):
            if misfits := misfits or self._unanswered(facts):
                self.misses.add(facts.api, misfits)

    def _unanswered(self, facts: Facts) -> list[Misfit]:
        """If the rule acts on responses, but the request gets no response, returns `acks` as the word that does not fit."""
        return (
            [("acks", (0,))]
            if facts.acks == 0 and self.injection_point in (InjectionPoint.RESPONSE, InjectionPoint.WIRE)
            else []
        )

    def copy(self) -> Self:
        """Returns a copy of the rule, with its counts at zero."""
        self.copied = True
        made = copy(self)
        made.seen = made.fired = 0
        made.added, made.missed, made.misses, made.copied, made.wait_until = False, "", None, False, None
        return made

    # Writing

    def __str__(self) -> str:
        parts = [f"{name}={value if isinstance(value, str) else repr(value)}" for name, value in self.described().items()]
        return f"{self.kind}({', '.join(parts[1:])})"

    __repr__ = __str__

    def described(self) -> dict[str, Any]:
        """Returns the words and values of the rule, as a fault file would have them."""
        words: dict[str, Any] = {"kind": self.kind}
        for part in (self.match, self.count):
            words |= {word: _written(value) for word in part.__struct_fields__ if (value := getattr(part, word)) is not None}
        options = {word: getattr(self, word) for word in options_of(type(self)) if word not in Match.__struct_fields__}
        words |= {word: value for word, value in options.items() if value is not None and not callable(value)}
        return words | ({"name": self.name} if self.name else {})

    # Checks that refuse rules that could never fire

    def _check_rule(self) -> None:
        kind, match, count = self.kind, self.match, self.count
        ways = [word for word in ("nth", "every", "probability") if getattr(count, word) is not None]
        if len(ways) > 1:
            raise FaultError(ways[0], f"{kind}: {' and '.join(ways)} contradict each other; give one of them")
        for word, pair in (("version", match.version), ("sequence", match.sequence)):
            if pair is not None and pair[0] > pair[1]:
                raise FaultError(word, f"{kind}: {word} from {pair[0]} to {pair[1]} is empty; give the smaller number first")
        if self.only_apis is not None and (wrong := [api for api in match.api or () if api not in self.only_apis]):
            raise FaultError("api", f"{kind} does not apply to {wrong[0]}, only to {', '.join(self.only_apis)}")
        if match.sequence is not None and match.api is not None and "Produce" not in match.api:
            raise FaultError("api", f"{kind}: only Produce has sequences, and this rule is for {', '.join(match.api)}")
        for word in ("group", "transactional_id", "producer_id", "producer_epoch"):
            if getattr(match, word) is not None and match.api and not any(can_name(api, word) for api in match.api):
                raise FaultError(word, f"{kind}: requests of {', '.join(match.api)} have no {word}")
        self._check_versions()

    def _check_versions(self) -> None:
        match = self.match
        if match.version is None:
            return
        newest = max(versions(KEYS[api])[1] for api in match.api or KEYS)
        if match.version[0] > newest or match.version[1] < 0:
            apis = ", ".join(match.api) if match.api else "any API"
            raise FaultError(
                "version", f"{self.kind}: there is no version {match.version[0]} of {apis}; the newest is {newest}"
            )


_HINTS: dict[type[Rule], dict[str, Any]] = {}


def _hints_of(kind: type[Rule]) -> dict[str, Any]:
    """Returns the type hints of a kind's options. The hints are cached, because the search takes 1 ms, and a fault file may
    have thousands of faults."""
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind, include_extras=True)
    return _HINTS[kind]


def words_of(kind: type[Rule]) -> dict[str, Any]:
    """Returns the words that a rule of this kind may have, except `kind`, with their type hints."""
    hints = _hints_of(kind)
    words = (*kind.match_words, *Count.__struct_fields__, "name", *options_of(kind))
    return {word: hints[word] for word in words}


def needed_by(kind: type[Rule]) -> tuple[str, ...]:
    """Returns the words that a rule of this kind must have."""
    return (*(option for option in options_of(kind) if option not in vars(kind)), *kind.needed)


def options_of(kind: type[Rule]) -> tuple[str, ...]:
    """Returns the words that only this kind has. In a call, these words may be positional arguments in this order."""
    hints = _hints_of(kind)
    return tuple(word for word in kind.__annotations__ if get_origin(hints[word]) is not ClassVar)


def _same(value: Any) -> Any:
    return value


def _several(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, int | str) else tuple(value)


def _pair(value: Any) -> tuple[int, int]:
    several = _several(value)
    return several[0], several[-1]


def _apis(value: Any) -> tuple[str, ...]:
    return tuple(api_named(each) for each in _several(value))


def api_named(name: str) -> str:
    """Returns the API's name as Kafka writes it. Upper and lower case do not matter. Raises FaultError."""
    for known in KEYS:
        if known.lower() == name.lower():
            return known
    raise FaultError("api", f"there is no API {name!r}{nearest(name, KEYS)}")


_READ: dict[str, Callable[[Any], Any]] = {"api": _apis, "version": _pair, "sequence": _pair, "nth": _several}
"""The functions that convert the values of some words to the form that `Match` and `Count` need."""


def _written(value: Any) -> Any:
    """Returns a value in the shortest form that is valid in a fault file."""
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 or (len(value) == 2 and value[0] == value[1]) else list(value)
    return value


def partitions_of(matches: Sequence[Batch | None], rule: Rule, facts: Facts) -> Where | None:
    """Returns the partitions of a request that a rule matches, or None if the rule matches the whole request."""
    if matches and matches[0] is not None:
        whole = len(matches) == len(facts.batches)
        return None if whole else frozenset((b.topic, b.partition) for b in matches if b is not None)
    match = rule.match
    if match.topic is None and match.partition is None:
        return None
    if not facts.partitions:
        return frozenset((topic, None) for topic in facts.topics if _fits(match.topic, topic))
    return frozenset(
        (topic, index) for topic, index in facts.partitions if _fits(match.topic, topic) and _fits(match.partition, index)
    )
