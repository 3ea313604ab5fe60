"""Finds errors that a client gets again and again, and errors that refuse its work for good."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from shlex import quote

from msgspec import Struct, field

from wirebroker.audit.findings import plural
from wirebroker.trace.rows import (
    DELETED,
    AuthenticationRow,
    AuthorizationRow,
    ConnectionRow,
    FetchRow,
    ProduceRow,
    ReplyRow,
    Row,
    TopicRow,
)
from wirebroker_tools.explain import error_codes
from wirebroker_tools.explain.detector import Detector, Known
from wirebroker_tools.explain.error_codes import (
    ADVICE,
    FENCED,
    LOGINS,
    NO_COORDINATOR,
    OF_COORDINATORS,
    PATIENT,
    REFUSED,
    REPEATED,
    STORM,
    UNAUTHORIZED,
)
from wirebroker_tools.explain.findings import Evidence, Finding, Kind, Shot
from wirebroker_tools.explain.words import (
    SECOND,
    Client,
    at,
    capital,
    client_of,
    ms,
    number_in,
    times,
    tool,
)

WINDOW = 10 * SECOND
MOST_NAMES, SHOWN = 50, 3
"""At most MOST_NAMES names in requests are counted, and a sentence lists at most SHOWN of these names."""
MOST_ERRORS = 50
"""For each client and API, at most this many errors are followed."""
REFRESHES = 60
"""If a client gets this many Metadata responses within the window, this is a finding."""
GIVEN_UP = 30 * SECOND
"""If the client has not repeated a request within this many ms after a temporary error, it has given up."""
_REMADE = "its offsets and ids belong to a topic that was deleted"
_GIVEN_UP = "the client gave up, and no later request of this kind succeeded"
TOO_LARGE = "MESSAGE_TOO_LARGE"
LOST_OFFSET = "OFFSET_OUT_OF_RANGE"
AGAIN = "made again"
OF_OTHER_TOPICS = frozenset((
    LOST_OFFSET, "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID", "FETCH_SESSION_TOPIC_ID_ERROR",
    "UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID",
    "NOT_LEADER_OR_FOLLOWER",
))  # fmt: skip
"""The errors that a client gets for a topic that was deleted. Another topic may have got the name since then."""
OF_REMADE = frozenset((
    LOST_OFFSET, "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID", "FETCH_SESSION_TOPIC_ID_ERROR",
))  # fmt: skip
USES = frozenset(("Produce", "Fetch", "ShareFetch", "ShareAcknowledge", "ListOffsets", "OffsetCommit", "TxnOffsetCommit"))
"""If a topic was made again, the errors of `OF_REMADE` from these APIs are a finding even if the client goes on, because the
client's offsets and records belonged to the deleted topic.
"""


class _Errors(Struct):
    """The responses of one API to one client. All these responses have the same error, or all have no error."""

    recent: deque[int] = field(default_factory=lambda: deque(maxlen=max(STORM, REFRESHES, *PATIENT.values())))
    """the times of the latest errors"""
    evidence: Evidence = field(default_factory=Evidence)
    """the errors since the latest success; if the error is final, all errors"""
    raged: bool = False
    """whether the error came often in a short time"""
    endless: bool = False
    """whether the error came for a long time without a success"""
    messages: dict[str, None] = {}
    about: Counter[str] = field(default_factory=Counter)
    """for each name, the number of times that it occurred in the requests"""
    failed: Counter[str] = field(default_factory=Counter)
    """the number of errors of each partition, if the rows name partitions"""
    connection: int = -1
    connections: int = 0
    """the number of errors that came on another connection than the previous error"""
    node: int = -1
    producer: tuple[int, int] = (-1, -1)
    """the id and epoch of the producer that got the latest error"""
    refused: int = 0
    """the size in bytes of the smallest batch that was refused with the error, or 0"""
    stored: int = 0
    """the size in bytes of the largest batch of the client that was stored in the same topic"""
    records: int = 0
    """the number of records in the batches that were refused"""
    unsent: set[tuple[str, int, int, int, int]] | None = None
    """the refused batches that were not stored later; None if there is a refused batch that cannot be recognised, such as a
    batch without a producer id
    """

    def add(self, number: int, row: ReplyRow | ProduceRow, about: tuple[str, ...], api: str, error: str) -> None:
        """Add the next response with the error."""
        if not error and self.recent and row.time - self.recent[-1] > WINDOW:
            self.heal()
        self.recent.append(row.time)
        self.evidence.add(number, row)
        for name in about:
            if name in self.about or len(self.about) < MOST_NAMES:
                self.about[name] += 1
        self.connections += row.connection != self.connection
        self.connection, self.node, self.producer = row.connection, row.node, (row.producer_id, row.producer_epoch)
        if isinstance(row, ReplyRow) and len(self.messages) < 3:
            self.messages.update(dict.fromkeys(row.messages))
        limit = PATIENT.get(error, STORM) if error else REFRESHES
        often = len(self.recent) >= limit and row.time - self.recent[-limit] <= WINDOW
        self.raged = self.raged or (often and error not in error_codes.QUIET)
        least = error_codes.lasts(api, error) if error else 0
        self.endless = self.endless or bool(
            least and self.evidence.count >= error_codes.ENDLESS and self.evidence.span >= least
        )

    def heal(self) -> None:
        """Remember that a request succeeded. An earlier finding remains a finding."""
        if not self.raged and not self.endless:
            self.evidence, self.connections = Evidence(), 0
            self.about.clear()
            self.failed.clear()
            self.messages.clear()

    def refuse(self, row: ProduceRow) -> None:
        """Note a batch that was refused."""
        self.records += row.records
        self.refused = min(self.refused or row.bytes, row.bytes)
        known = set[tuple[str, int, int, int, int]]() if self.evidence.count == 1 else self.unsent
        self.unsent = known if row.first_sequence >= 0 and known is not None and len(known) < MOST_NAMES else None
        if self.unsent is not None:
            self.unsent.add(_batch(row))

    @property
    def was_sent_later(self) -> bool:
        """Tells whether the producer has stored each of the refused batches later. For example, a Java producer splits a batch
        that is too large."""
        return self.unsent is not None and self.evidence.count > 0 and not self.unsent


class _Producer(Struct):
    """For a producer id: the latest epoch, the transaction timeout in ms, and the time from which a transaction can be open."""

    epoch: int = -1
    timeout: int = 0
    since: int = 0


class _Remade(Struct):
    """The time at which a topic was deleted, and the time at which a new topic got the same name. The second time is 0 if there
    is no new topic."""

    deleted: int
    created: int = 0


class Refusals(Detector):
    """Finds `retry_storm`: a client gets the same error from an API many times within a short time, or for a long time without
    a success. Also finds `denied`, if an error refuses a request for good.
    """

    events = ("reply", "fetch", "produce", "shadow", "topic", "authorization", "authentication", "connection")

    def __init__(self) -> None:
        self._errors: Known[tuple[Client, str], dict[str, _Errors]] = Known(dict)
        self._verdicts: Known[Client, dict[str, _Errors]] = Known(dict)
        """The errors of batches, from their verdicts: a Produce with acks=0 has no response, and a trace of verdicts has no
        responses at all.
        """
        self._unread: Known[Client, list[tuple[str, str]]] = Known(list)
        """For each client, the errors in the response to its Fetch, with the errors' partitions. The errors are kept until the
        row of the response comes.
        """
        self._stored: Known[tuple[Client, str], list[int]] = Known(list)
        """For each client and topic, a list with the size in bytes of the largest batch that was stored."""
        self._producers: Known[int, _Producer] = Known(_Producer)
        self._topics: Known[str, list[_Remade]] = Known(list)
        """For each topic that was deleted, a list with its latest deletion."""
        self._closed: Known[int, bool] = Known(bool)
        """The connections that were closed."""
        self._denied: Known[tuple[str, str], bool] = Known(bool)
        """The principal and the type of resource in each row about a denied operation."""
        self._logins: Known[str, bool] = Known(bool)
        """The hosts with failed logins."""

    def begin_run(self) -> None:
        """Forget the connections: a new run has other connection numbers, and all connections of the former run are closed."""
        for each in (*self._errors.values(), *self._verdicts.values()):
            for errors in each.values():
                errors.connection = -1

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, ReplyRow):
            self._replied(number, row)
        elif isinstance(row, FetchRow):
            if row.code and len(unread := self._unread[client_of(row)]) < MOST_NAMES:
                unread.append((row.error, f"{row.topic}-{row.partition}"))
        elif isinstance(row, ProduceRow):
            self._judged(number, row)
        elif isinstance(row, TopicRow):
            self._changed(row.topic, row.change, row.time)
        elif isinstance(row, AuthorizationRow):
            self._denied.put((row.principal, row.resource_type), True)
        elif isinstance(row, AuthenticationRow):
            if row.outcome != "succeeded":
                self._logins.put(row.client_host, True)
        elif isinstance(row, ConnectionRow) and row.change == "closed":
            self._closed.put(row.connection, True)

    def _replied(self, number: int, row: ReplyRow) -> None:
        known = self._errors[client_of(row), row.api]
        self._add(known, number, row, row.about, row.api, row.errors)
        for error, name in self._unread.pop(client_of(row), ()) if row.api == "Fetch" else ():
            if error in known and (name in known[error].failed or len(known[error].failed) < MOST_NAMES):
                known[error].failed[name] += 1
        if row.errors:
            return
        if row.api == "Metadata":
            known.setdefault("", _Errors()).add(number, row, row.about, row.api, "")
        elif row.api in ("DeleteTopics", "CreateTopics"):
            for topic in row.about:
                self._changed(topic, "deleted" if row.api == "DeleteTopics" else "created", row.time)
        elif row.api in ("InitProducerId", "EndTxn"):
            producer = self._producers[row.producer_id]
            producer.epoch, producer.since = max(producer.epoch, row.producer_epoch), row.time
            producer.timeout = number_in(row.details, "transaction_timeout_ms", producer.timeout)

    def _judged(self, number: int, row: ProduceRow) -> None:
        client = client_of(row)
        known, place = self._verdicts[client], (client, row.topic)
        errors = (row.error,) if row.verdict == "rejected" else ()
        self._add(known, number, row, (f"{row.topic}-{row.partition}",), "Produce", errors)
        if not errors:
            if row.verdict == "accepted":
                self._stored[place][:] = [max([row.bytes, *(self._stored.get(place) or ())])]
            for each in known.values():
                if each.unsent:
                    each.unsent.discard(_batch(row))
        elif (refused := known.get(row.error)) is not None:
            refused.refuse(row)
            refused.stored = max([refused.stored, *(self._stored.get(place) or ())])

    def _add(
        self, known: dict[str, _Errors], number: int, row: ReplyRow | ProduceRow, about: tuple[str, ...], api: str,
        errors: tuple[str, ...],
    ) -> None:  # fmt: skip
        for error in errors:
            if error in known or len(known) < MOST_ERRORS:
                known.setdefault(error, _Errors()).add(number, row, about, api, error)
        if not errors:
            for error, each in known.items():
                stays = not error or error_codes.is_final(api, error) or self._is_about_remade(api, error, each)
                if not stays and self._heals(row, about, each):
                    each.heal()

    def _heals(self, row: ReplyRow | ProduceRow, about: tuple[str, ...], errors: _Errors) -> bool:
        """Tells whether a success ends the errors: the success comes from the same client, and is about the same partitions or
        names. Clients that share an id have different connections.
        """
        same = not about or not errors.about or any(name in errors.about for name in about)
        gone = errors.connection < 0 or self._closed.get(errors.connection) or row.node != errors.node
        return same and (row.connection == errors.connection or bool(gone))

    def _changed(self, topic: str, change: str, time: int) -> None:
        if change == "deleted":
            self._topics[topic][:] = [_Remade(time)]
        elif change == "created" and (known := self._topics.get(topic)):
            known[0].created = known[0].created or time

    # Findings

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each client that gets an error again and again, and for each client whose work is refused for
        good.
        """
        told: set[tuple[Client, str]] = set()
        for (client, api), known in self._errors.items():
            judged = self._verdicts.get(client) if api == "Produce" else None
            for error, errors in sorted(known.items(), key=lambda each: each[0] != LOST_OFFSET):
                verdicts = (judged or {}).get(error) or errors
                if self._is_about_remade(api, error, errors) and errors.evidence.count:
                    if (about := (client, self._remade(errors))) in told:
                        continue  # one finding for each client and topic is enough
                    told.add(about)
                if kind := self._kind(client, api, error, errors, verdicts, now):
                    yield self._finding(kind, client, api, error, errors, verdicts)
        for client, known in self._verdicts.items():
            replied = self._errors.get((client, "Produce")) or {}
            for error, errors in known.items():
                if error not in replied and (kind := self._kind(client, "Produce", error, errors, errors, now)):
                    yield self._finding(kind, client, "Produce", error, errors, errors)

    def _kind(self, client: Client, api: str, error: str, errors: _Errors, verdicts: _Errors, now: int) -> Kind | None:
        if errors.raged and not error.endswith(UNAUTHORIZED):
            return "retry_storm"
        if not errors.evidence.count or not error or self._is_of_others(client, api, error):
            return None
        given_up = self._closed.get(errors.connection) or now - errors.evidence.last_time >= GIVEN_UP
        if self._is_about_remade(api, error, errors):
            return "denied"
        if error_codes.is_final(api, error) or (error_codes.must_heal(api, error) and given_up):
            return None if verdicts.was_sent_later or self._is_replaced(error, errors) else "denied"
        return "retry_storm" if errors.endless and not _is_of_coordinators(api, error, errors) else None

    def _is_of_others(self, client: Client, api: str, error: str) -> bool:
        """Tells whether another detector reports the error."""
        if error.endswith(UNAUTHORIZED):
            return bool(self._denied.get((client.principal, error.removesuffix(UNAUTHORIZED))))
        return api in LOGINS and bool(self._logins.get(client.host))

    def _is_replaced(self, error: str, errors: _Errors) -> bool:
        """Tells whether another producer has replaced this producer, or its transaction has timed out. A replaced producer is
        normal, and a transaction that has timed out is a finding of another kind."""
        if error not in FENCED or (known := self._producers.get(errors.producer[0])) is None:
            return False
        late = known.timeout > 0 and errors.evidence.last_time - known.since >= known.timeout
        return late or errors.producer[1] < known.epoch

    def _is_about_remade(self, api: str, error: str, errors: _Errors) -> bool:
        return error in OF_REMADE and api in USES and AGAIN in self._remade(errors)

    def _remade(self, errors: _Errors) -> str:
        """Returns a sentence about the topic if it was deleted before the errors, else ""."""
        for name in errors.failed or errors.about:
            for topic in (name, name.rpartition("-")[0].removesuffix(DELETED)):
                if (known := self._topics.get(topic)) and known[0].deleted <= errors.evidence.last_time:
                    again = f" and {AGAIN} at {at(known[0].created)}" if known[0].created else ""
                    return f" Topic {topic} was deleted at {at(known[0].deleted)}{again}."
        return ""

    def _finding(self, kind: Kind, client: Client, api: str, error: str, errors: _Errors, verdicts: _Errors) -> Finding:
        evidence = errors.evidence
        remade = self._remade(errors) if error in OF_OTHER_TOPICS else ""
        about = f" for {_shares(errors)}" if errors.failed or errors.about else ""
        said = f" ({'; '.join(errors.messages)})" if errors.messages else ""
        count = f"{times(evidence.count)} {_exactly(evidence)}"
        sentence = f"{capital(str(client))} got {error}{said} from {api}{about} {count}"
        if not error:
            sentence = f"{capital(str(client))} asked for {api} {count}, without an error"
        elif kind == "denied":
            final = error_codes.is_final(api, error)
            how = _REMADE if AGAIN in remade else "the broker refuses this for good" if final else _GIVEN_UP
            sentence += f"; {how}{_lost(verdicts)}"
        elif errors.endless:
            sentence += ", without a success in between"
        cause, look_at = _advice(kind, error, errors, remade)
        return Finding(
            kind, f"{sentence}.{_sizes(verdicts) if error == TOO_LARGE else ''}{remade}", cause, look_at,
            f"api={api} {client.chosen}" + (f" error={error}" if error else ""), evidence, evidence.count,
            Shot("sequence", "", client.chosen),
        )  # fmt: skip


def _advice(kind: Kind, error: str, errors: _Errors, remade: str) -> tuple[str, str]:
    """Returns the usual cause, and what to look at."""
    if not error and errors.connections * 2 > errors.evidence.count:
        return (
            "the application makes a new client for each record, request or task, and each asks for the metadata",
            "where the application makes its producers and consumers: one for the whole process is enough",
        )
    if not error:
        return (
            "the client looks for a leader or a broker that it cannot reach, and asks for new metadata each time",
            "the connections of this client that were closed; retry.backoff.ms, metadata.max.age.ms",
        )
    if remade:
        is_back = AGAIN in remade
        return (
            "the name now belongs to another topic: ids, offsets and sequences of the client belong to the deleted topic"
            if is_back else "the topic was deleted while the client used it",
            "what deletes the topic; the client's committed offsets (kafka-consumer-groups --reset-offsets)",
        )  # fmt: skip
    cause, look_at = ADVICE.get(error, REFUSED if kind == "denied" else REPEATED)
    topics = sorted({name.rpartition("-")[0] or name for name in errors.failed or errors.about if " " not in name})
    entities = [f"--describe --entity-type topics --entity-name {quote(each)}" for each in topics[:SHOWN]]
    described = "; ".join(tool("kafka-configs", each) for each in entities)
    return cause, look_at.replace("{topics}", described or "the topic")


def _is_of_coordinators(api: str, error: str, errors: _Errors) -> bool:
    """Tells whether the detector of missing coordinators reports the error."""
    asks = error in NO_COORDINATOR and api in ("FindCoordinator", *OF_COORDINATORS)
    return asks and any(" " in name for name in errors.about)


def _batch(row: ProduceRow) -> tuple[str, int, int, int, int]:
    return row.topic, row.partition, row.producer_id, row.producer_epoch, row.first_sequence


def _exactly(evidence: Evidence) -> str:
    """Describes when the errors occurred, and for how long."""
    if not evidence.span:
        return f"at {at(evidence.first_time)}"
    return f"in {ms(evidence.span)}, from {at(evidence.first_time)} to {at(evidence.last_time)}"


def _shares(errors: _Errors) -> str:
    """Returns the partitions with the error, or else the names in the requests. If there are several partitions or names, each
    is followed by its number of occurrences."""
    names = errors.failed or errors.about
    found = names.most_common(SHOWN)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    if len(found) == 1:
        return found[0][0]
    alike = all(count == errors.evidence.count for _, count in found)
    return ", ".join(name if alike else f"{name} ({count:,})" for name, count in found) + more


def _lost(errors: _Errors) -> str:
    """Returns the part of a sentence about the records that were not stored."""
    return f", and {plural(errors.records, 'record')} {'is' if errors.records == 1 else 'are'} lost" if errors.records else ""


def _sizes(errors: _Errors) -> str:
    """Returns a sentence about the smallest batch that was refused because of its size, and the largest stored batch."""
    if not errors.refused:
        return ""
    stored = f"; the largest that it took from this client on the same topic has {errors.stored:,} B" if errors.stored else ""
    return f" The smallest batch that the broker refused has {errors.refused:,} B{stored}."
