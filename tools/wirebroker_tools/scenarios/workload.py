"""The application of a scenario. It does the scenario's steps in order, with any of the clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, make_dataclass
from datetime import timedelta
from functools import cache
from inspect import Parameter, signature
from typing import Any, Literal, TypeVar

from wirebroker.mock import MockKafka
from wirebroker_tools.drivers import Refused, sentence
from wirebroker_tools.scenarios import raw
from wirebroker_tools.scenarios.journal import Journal, Note, Sent, label
from wirebroker_tools.scenarios.scenario import RESULTS, TOPIC, Part, rules_of
from wirebroker_tools.scenarios.watch import Watch, named

T = TypeVar("T")
Offsets = Literal["after", "in transaction", "with output"]
"""The ways in which a pipeline stores the offset of its input: it commits the offset after it has produced the results, it
commits the offset in the transaction of the results, or it writes the offset into the results.
"""
Unit = Literal["days", "hours", "minutes", "seconds", "milliseconds"]
Isolation = Literal["read_committed", "read_uncommitted"]
IN_TRANSACTION = 2.0
"""A flush inside a transaction may take this many seconds. The outcome of the records is known only when the transaction ends.
"""
FIRST = "first"
"""If a step does not name a producer, it uses the producer of this name."""
CHUNK = 2
"""A pipeline reads and processes this many records together."""


class _ReaderFailed(Exception):
    """Raised if the client's consumer raised an exception."""


class Workload:
    """The application: it does the steps of a part, one after another."""

    def __init__(self, part: Part, clients: Any, kafka: MockKafka, watch: Watch, end: float) -> None:
        self.journal = Journal()
        self.transactions: list[list[str]] = []
        """For each transaction, the values that were sent in it."""
        self.differences: list[str] = []
        self.rules: list[Any] = []
        """The fault rules that steps have added."""
        self.refusal = ""
        self.hung = self.abandoned = False
        self.doing = ""
        """The call to the client that is in progress."""
        self._part, self._clients, self._kafka, self._watch, self._end = part, clients, kafka, watch, end
        self._address = kafka.bootstrap_servers
        self._producers: dict[str, _Held] = {}
        self._count = 0

    def run(self) -> None:
        """Do the steps, then close the producers."""
        try:
            for step in self._part.steps:
                verb = verb_of(step) or ""
                getattr(self, f"_do_{verb}")(**{("value" if word == verb else word): step[word] for word in step})
        except Refused as refused:
            self.refusal = str(refused)
        except _ReaderFailed as failed:
            self.differences.append(str(failed))
        for held in self._producers.values():
            self._call("close", lambda held=held: held.producer.close(min(1.0, self._left())))  # type: ignore[misc]

    def abandon(self) -> None:
        """Drop all producers, and ignore their errors from now on."""
        self.abandoned = True
        for held in self._producers.values():
            held.dead = True
            held.producer.crash()

    def _left(self) -> float:
        return max(self._end - time.monotonic(), 0.05)

    def _call(self, what: str, function: Callable[[], Any]) -> str:
        """Call the client. Returns the error as a sentence, or "" if the call succeeded."""
        self.doing = what
        try:
            function()
        except Refused:
            raise
        except Exception as failed:
            if self.abandoned:
                raise
            self.journal.notes.append(Note(what, sentence(failed)))
            return sentence(failed)
        return ""

    def _reader(self, topic: str, group: str, isolation: str = "read_committed") -> Any:
        """Returns a consumer of the client. An exception of the consumer ends the workload."""
        return self._asked("a consumer", lambda: self._clients.Reader(self._address, topic, group, isolation))

    def _asked(self, what: str, function: Callable[[], T]) -> T:
        """Call the consumer, and return the result. Raises _ReaderFailed."""
        self.doing = what
        try:
            return function()
        except Exception as failed:
            raise _ReaderFailed(f"{what}: {sentence(failed)}") from failed

    def _held(self, by: str) -> _Held:
        """Returns the application's producer with this name. The first call for a name makes the producer."""
        held = self._producers.get(by)
        if held is None:
            held = _Held(self._part.producer.transactional_id is not None, self.journal)
            held.producer = self._clients.Producer(self._address, self._part.producer, held.tell)
            self._producers[by] = held
            held.broken = self._call("start", held.producer.start)
        return held

    # Records

    def _values(self, count: int, size: int = 0) -> list[str]:
        """Returns the values of the next records: A, B … The values of the records in one batch begin with the same letter: A0,
        A1 …
        """
        found: list[str] = []
        sizes = self._part.producer.batches if self._clients.__name__.endswith(".wire") else []
        while len(found) < count:
            name = label(self._count)
            wanted = sizes[self._count % len(sizes)] if sizes else 1
            found += [f"{name}{i}" for i in range(wanted)] if wanted > 1 else [name]
            self._count += 1
            count += wanted - 1
        return [value + "." * max(size - len(value), 0) for value in found]

    def _send(self, held: _Held, value: str, partition: int, by: str, topic: str = TOPIC) -> None:
        self.journal.sent.append(Sent(value, topic, partition, by))
        held.sent(value)
        if held.broken:
            held.tell(value, -1, held.broken)
        else:
            self.doing = f"send {named([value])}"
            held.producer.send(topic, value, partition)

    def _wait(self, held: _Held, values: Sequence[str]) -> None:
        """Wait for the outcome of these values. Inside a transaction the outcome is known only when the transaction ends."""
        if held.broken:
            return
        timeout = min(self._left(), IN_TRANSACTION) if held.transactional else self._left()
        self._call("flush", lambda: held.producer.flush(timeout))
        if not held.transactional and not self.journal.wait_told(set(values), self._left()):
            self.hung = True

    def _do_produce(
        self,
        value: int,
        partitions: Sequence[int] = (0,),
        wait: bool = True,
        by: str = FIRST,
        threads: int = 1,
        bytes: int = 0,
    ) -> None:
        held = self._held(by)
        values = self._values(value, bytes)

        def some(first: int) -> None:
            name = by if threads == 1 else f"{by} {first}"
            for number, each in enumerate(values[first::threads]):
                self._send(held, each, partitions[number % len(partitions)], name)

        workers = [threading.Thread(target=some, args=(first,), daemon=True) for first in range(threads)]
        for worker in workers if threads > 1 else ():
            worker.start()
        for worker in workers if threads > 1 else ():
            worker.join(self._left())
        if threads == 1:
            some(0)
        if wait:
            self._wait(held, values)
        elif not held.broken:
            held.producer.push()

    def _do_flush(self, value: bool, by: str = FIRST) -> None:
        self._wait(self._held(by), [each.value for each in self.journal.sent])

    def _do_send_again(self, value: str | list[str], partition: int | None = None, by: str = FIRST) -> None:
        """Send records again: the named records, or all unacknowledged records."""
        held = self._held(by)
        known = {each.value: each for each in self.journal.sent}
        chosen = self.journal.unacknowledged() if value == "unacknowledged" else [known[name] for name in value]
        for each in chosen:
            self._send(held, each.value, each.partition if partition is None else partition, by)
        self._wait(held, [each.value for each in chosen])

    def _do_crash(self, value: bool, by: str = FIRST) -> None:
        self._watch.mark("the application dies")
        held = self._producers.pop(by)
        held.dead = True
        self._call("crash", held.producer.crash)

    # Transactions

    def _do_begin(self, value: bool = True, by: str = FIRST) -> None:
        held = self._held(by)
        held.begin()
        if not held.broken:
            held.failed = self._call("begin_transaction", held.producer.begin)

    def _do_commit(self, value: bool = True, by: str = FIRST) -> None:
        held = self._held(by)
        failed = held.broken or held.failed or self._call("commit_transaction", held.producer.commit)
        if failed and not held.broken:
            held.lost = bool(self._call("abort_transaction", held.producer.abort))
        self.transactions.append(held.end(failed))

    def _do_abort(self, value: bool = True, by: str = FIRST) -> None:
        held = self._held(by)
        failed = held.broken or self._call("abort_transaction", held.producer.abort)
        held.lost = bool(failed)
        self.transactions.append(held.end(failed or "aborted by the application"))

    def _do_transaction(self, value: int, partitions: Sequence[int] = (0,), again: int = 0, by: str = FIRST) -> None:
        """Run one transaction of `value` records. If the transaction fails, the application repeats it up to `again` times.

        If the client cannot continue after a failure, the application repeats the transaction with a new producer, which has
        the same transactional id.
        """
        self._transaction(self._values(value), partitions, again, by)

    def _transaction(self, values: Sequence[str], partitions: Sequence[int], again: int, by: str) -> None:
        self._do_begin(by=by)
        held = self._held(by)
        for number, each in enumerate(values):
            self._send(held, each, partitions[number % len(partitions)], by)
        self._do_commit(by=by)
        if again and not set(values) <= self.journal.acknowledged():
            if held.lost or held.broken:
                self._do_crash(True, by)
            self._transaction(values, partitions, again - 1, by)

    # Pipelines

    def _do_process(self, value: int, offsets: Offsets, crash_after: int = 0) -> None:
        """Consume, transform and produce `value` records. The first worker dies after `crash_after` records, before it commits
        the offset of its input.
        """
        for _ in range(value):
            self._kafka.produce(TOPIC, value=label(self._count).encode())
            self._count += 1
        if crash_after:
            self._work(value, offsets, crash_after)
        self._work(value, offsets, 0)

    def _work(self, count: int, offsets: str, crash_after: int) -> None:
        held = self._held(FIRST)
        reader = self._reader(TOPIC, "workers")
        done = self._known() if offsets == "with output" else self._asked("committed", reader.committed)
        while done < count and self._left() > 0.1:
            if offsets == "in transaction":
                self._do_begin()
            for offset, value in self._read(reader, done, CHUNK, self._left()):
                self._send(held, f"{value}@{offset}", 0, FIRST, RESULTS)
                done = offset + 1
            self._wait(held, [each.value for each in self.journal.sent])
            if offsets == "in transaction":
                self._call("send_offsets_to_transaction", lambda done=done: held.producer.send_offset(reader, done))  # type: ignore[misc]
            if crash_after and done >= crash_after:
                if held.transactional:
                    held.end("the worker has died")
                self._do_crash(True)
                break
            if offsets == "in transaction":
                self._do_commit()
            elif offsets == "after":
                self._call("commit", lambda done=done: reader.commit(done))  # type: ignore[misc]
        self._call("close the consumer", reader.close)

    def _read(self, reader: Any, offset: int, count: int, timeout: float) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = self._asked("read", lambda: reader.read(offset, count, timeout))
        return found

    def _known(self) -> int:
        """Each result contains the offset of its input. Reads the results, and returns the offset after the last of these
        offsets.
        """
        if not self._kafka.records(RESULTS):
            return 0
        reader = self._reader(RESULTS, "results")
        found = self._read(reader, 0, len(self._kafka.records(RESULTS)), self._left())
        self._call("close the consumer", reader.close)
        return max((int(value.partition("@")[2]) + 1 for _, value in found), default=0)

    def _do_consume(self, value: int, isolation: Isolation = "read_committed", to_end: bool = False) -> None:
        """Let a consumer read from the beginning. It must find `value` records. With `to_end`, it must also reach the end of
        the log."""
        reader = self._reader(TOPIC, "readers", isolation)
        found = self._read(reader, 0, value or 1, min(self._left(), 3.0) if value else 0.4)
        if len(found) != value:
            self.differences.append(f"a {isolation} consumer reads {len(found)} records, expected {value}")
        if to_end:
            end = self._kafka._call(lambda engine: engine.cluster.topics[TOPIC].partitions[0].log_end_offset)
            position = self._asked("position", reader.position)
            if position != end:
                self.differences.append(f"the consumer's position stays at {position}; the log ends at {end}")
        self._call("close the consumer", reader.close)

    # The broker

    def _do_open_transaction(self, value: int) -> None:
        self._watch.mark("another application leaves a transaction open")
        raw.open_transaction(self._address, TOPIC, value)

    def _do_empty_transaction(self, value: bool) -> None:
        self._watch.mark("another application aborts a transaction that is empty")
        raw.empty_transaction(self._address, TOPIC)

    def _do_delete_records(self, value: bool) -> None:
        self._watch.mark("all records are deleted")
        self.journal.deleted |= {(record.value or b"").decode() for record in self._kafka.records(TOPIC)}
        raw.delete_records(self._address, TOPIC, self._part.broker.partitions)

    def _do_restart(self, value: Literal["clean", "kill"]) -> None:
        self._watch.mark("the broker is killed and starts again" if value == "kill" else "the broker restarts")
        self._kafka.restart(value)

    def _do_kill(self, value: Literal["leader", "transaction coordinator"]) -> None:
        """Kill a broker, as `kill -9` does."""
        self._watch.mark(f"the {value} is killed")
        if value == "leader":
            self._kafka.kill_broker(self._kafka.partition(TOPIC).leader)
            return
        name = self._part.producer.transactional_id or ""
        node = self._kafka._call(lambda engine: engine.cluster.coordinator("transaction", name))
        self._kafka.kill_broker(node or 1)

    def _do_freeze(self, value: bool) -> None:
        """Make the followers of partition 0 stop fetching."""
        self._watch.mark("the followers stop fetching")
        state = self._kafka.partition(TOPIC)
        for node in state.replicas:
            if node != state.leader:
                self._kafka.freeze_replica(TOPIC, 0, node)

    def _do_move_leader(self, value: bool) -> None:
        """Make a follower of partition 0 the new leader."""
        self._watch.mark("another broker leads")
        state = self._kafka.partition(TOPIC)
        self._kafka.move_leader(TOPIC, to=next(node for node in state.in_sync if node != state.leader))

    def _do_advance(self, value: dict[Unit, float]) -> None:
        self._watch.mark(f"{' '.join(f'{number} {unit}' for unit, number in value.items())} pass")
        self._kafka.clock.advance(timedelta(**value))

    def _do_faults(self, value: list[dict[str, Any]]) -> None:
        self.rules += [self._kafka.faults.add(rule) for rule in rules_of(value, self._part.where)]

    def _do_clear_faults(self, value: bool) -> None:
        for rule in self._kafka.faults.rules:
            if rule.name not in ("watch", "epoch"):
                self._kafka.faults.remove(rule)

    def _do_wait_for_fault(self, value: str) -> None:
        rules = [rule for rule in self._kafka.faults.rules if rule.name == value]
        try:
            self._kafka.wait_until(lambda: all(rule.fired for rule in rules), self._left())
        except TimeoutError:
            self.hung = True

    def _do_wait_for_stored(self, value: int) -> None:
        """Wait until the leaders have `value` records. Unacknowledged records count, too."""
        try:
            self._kafka.wait_for_records(TOPIC, value, self._left())
        except TimeoutError:
            self.hung = True


class _Held:
    """A producer of the application, and the state of its records."""

    producer: Any

    def __init__(self, transactional: bool, journal: Journal) -> None:
        self.transactional = transactional
        self.dead = False
        self.lost = False
        """True if the client cannot continue with this producer."""
        self.broken = ""
        """the reason why the producer could not start"""
        self.failed = ""
        """the reason why the producer's transaction could not begin"""
        self.errors: dict[str, str] = {}
        """the errors that the client reported for records in the transaction, by the record's value"""
        self._journal = journal
        self._offsets: dict[str, int] = {}
        self._open: list[str] = []

    def tell(self, value: str, offset: int, error: str) -> None:
        """Called with the outcome of a record. In a transaction, the outcome is known only when the transaction ends."""
        if self.dead:
            return
        if self.transactional:
            self._offsets[value] = offset
            if error:
                self.errors[value] = error
        else:
            self._journal.tell(value, offset, error)

    def sent(self, value: str) -> None:
        """Note a record that was handed to the client."""
        self._open.append(value)

    def begin(self) -> None:
        """Remember that a transaction begins."""
        self._open = []

    def end(self, error: str) -> list[str]:
        """Note the end of a transaction. If there is no error, all records of the transaction are acknowledged; otherwise none
        of them is acknowledged. Returns the values of the records.
        """
        for value in self._open:
            self._journal.tell(value, self._offsets.get(value, -1), error)
            if not error and value in self.errors:
                self._journal.notes.append(
                    Note(f"commit_transaction raised nothing, though {named([value])} had failed", self.errors[value])
                )
        ended, self._open = self._open, []
        return ended


@cache
def step_forms() -> dict[str, type[Any]]:
    """For each verb of a step, returns a dataclass. Its fields are the parameters of the workload's method for the verb. The
    first field is the value that follows the verb in a file.
    """
    forms: dict[str, type[Any]] = {}
    for name, method in vars(Workload).items():
        if verb := name.removeprefix("_do_") if name.startswith("_do_") else "":
            _, value, *options = signature(method, eval_str=True).parameters.values()
            needed = [(each.name, each.annotation) for each in options if each.default is Parameter.empty]
            others = [
                (each.name, each.annotation, field(default=each.default))
                for each in options
                if each.default is not Parameter.empty
            ]
            forms[verb] = make_dataclass(verb, [(verb, value.annotation), *needed, *others])
    return forms


def verb_of(step: Mapping[str, Any]) -> str | None:
    """Returns the verb of a step, or None if the step has no known verb."""
    return next((word for word in step if word in step_forms()), None)
