"""A case of the fuzzer: makes a broker's settings and requests from a seed, sends the requests, and returns the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from fuzzing.frames import damaged_frame, frame
from fuzzing.known import Known
from fuzzing.requests import Author, Made
from fuzzing.script import Finding, Script, Setting, Step
from fuzzing.world import TOPICS, Response, World, served_by
from kafkawire.frames import encode_request
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.registry import KEYS
from wirebroker.apis import SERVED

OFTEN = ("Produce", "Produce", "Produce", "Fetch", "InitProducerId", "JoinGroup", "SyncGroup", "OffsetCommit",
         "TxnOffsetCommit",
         "AddPartitionsToTxn", "EndTxn", "ConsumerGroupHeartbeat", "CreateTopics", "Heartbeat")  # fmt: skip
"""APIs that are chosen often, because they change the broker's state. If an API is listed twice, it is chosen twice as
often.
"""
LASTING = ("Metadata", "ListGroups", "DescribeGroups", "ListTransactions", "DescribeTransactions", "DescribeCluster",
           "DescribeLogDirs", "DescribeProducers", "ConsumerGroupDescribe", "DescribeConfigs", "OffsetFetch", "DescribeQuorum",
           "DescribeTopicPartitions", "ListOffsets", "Fetch", "FindCoordinator", "ListPartitionReassignments")  # fmt: skip
"""APIs that the good client calls at the end, after the requests of all other clients."""
CONNECTIONS = 4
GOOD = 99
"""The number of the good client's connection."""
FEWEST, MOST = 20, 200
LARGEST = 4 << 20
"""The largest size, in bytes, of a request's body. If a body is larger, another request is made."""


def setting_of(seed: int) -> Setting:
    """Returns the broker's settings for a seed: every fifth broker has a directory, every seventh is a cluster, and so on."""
    traces = {1: "verdicts", 4: "changes", 7: "all"}
    return Setting(
        seed=seed, brokers=3 if seed % 7 == 3 else 1, data=seed % 5 == 2, trace=traces.get(seed % 11, "off"),
        faults={4: "idle", 7: "idle", 9: "active"}.get(seed % 12, ""), sliced=seed % 2 == 1,
    )  # fmt: skip


@dataclass(slots=True)
class Outcome:
    """The result of a case. Playing `script` again repeats the case."""

    script: Script
    finding: Finding | None
    requests: int
    responses: int
    slowest: float
    slowest_request: str


class Case:
    """Makes one request at a time and sends it, because later requests use values from earlier responses."""

    def __init__(self, seed: int, apis: Sequence[str] = (), steps: int | None = None) -> None:
        self.random = Random(f"requests-{seed}")
        self.world = World(setting_of(seed))
        self.known = Known(self.random, tuple(TOPICS))
        self.author = Author(self.random, self.known, lambda: self.world.now)
        self.steps: list[Step] = []
        self._apis = tuple(apis)
        self._count = steps or self.random.randint(FEWEST, MOST)
        self._correlation = 0
        self._sent: dict[int, Made] = {}
        self._mutated = self.random.choice((0.2, 0.5, 0.8))

    def run(self) -> Outcome:
        """Plays the case to its end."""
        world, finding = self.world, None
        try:
            if self.random.random() < 0.9:
                self._find_coordinators()
            for _ in range(self._count):
                self._learn(self._do(self._next()))
            self._good_client()
            world.finish()
        except Finding as found:
            finding = found
        finally:
            world.close()
        script = Script(world.setting, tuple(self.steps))
        return Outcome(script, finding, world.requests, world.responses, world.slowest, world.slowest_request)

    def _do(self, step: Step) -> list[Response]:
        self.steps.append(step)
        return self.world.do(step)

    def _find_coordinators(self) -> None:
        """Sends FindCoordinator, which creates the internal topics that groups and transactions need."""
        for key_type, keys in enumerate((["group-0", "group-1"], ["transaction-0", "transaction-1"])):
            self._correlation += 1
            raw = encode_request(self._correlation, "fuzz", FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys), 4)
            self._do(Step("send", 0, raw[4:]))

    def _next(self) -> Step:
        chance, number = self.random.random(), self.random.randrange(CONNECTIONS)
        if chance < 0.02:
            return Step(self.random.choice(("open", "close")), number)
        if chance < 0.08:
            return Step("wait", ms=self.random.choice((1, 50, 1000, 3100, 3100, 3100, 10_000, 60_000, 400_000)))
        if chance < 0.086:
            return Step("restart", mode=self.random.choice(("clean", "kill")))
        if chance < 0.11 and self.world.setting.brokers > 1:
            return Step(self.random.choice(("kill broker", "start broker", "start broker")), number)
        return Step("send", number, self._frame())

    def _key(self) -> int:
        if self._apis and self.random.random() < 0.7:
            return KEYS[self.random.choice(self._apis)]
        return KEYS[self.random.choice(OFTEN if self.random.random() < 0.5 else SERVED)]

    def _frame(self) -> bytes:
        served, key = served_by(self.world.engine), self._key()
        while key not in served:  # the broker's release does not have this API
            key = self._key()
        oldest, newest = served[key]
        version = self.random.choice((newest, self.random.randint(oldest, newest)))
        mutated = self.random.random() < self._mutated
        made = self.author.request(key, version, mutations=self.random.choice((1, 1, 2, 4)) if mutated else 0)
        while len(made.body) > LARGEST:
            made = self.author.request(key, version, mutations=1)
        self._correlation += 1
        raw = frame(key, version, self._correlation, made.body, self.random.choice((b"fuzz", b"fuzz", b"", None, b"\xff\xfe")))
        self._sent[self._correlation] = made
        return damaged_frame(self.random, raw) if self.random.random() < 0.15 * self._mutated else raw

    def _learn(self, responses: list[Response]) -> None:
        for response in responses:
            made = self._sent.pop(response.asked.correlation_id, None)
            if made is not None and made.message.__schema__.key == response.asked.key:
                self.known.learn(made.message, response.response)
                self._count_sequences(made, response)

    @staticmethod
    def _count_sequences(made: Made, response: Response) -> None:
        """Remembers the producer's next sequence after each acknowledged batch."""
        producer = made.producer
        if producer is None or response.asked.request is None:
            return
        for topic in response.asked.request.topic_data:  # type: ignore[attr-defined]
            for partition in topic.partition_data:
                where = (topic.name or topic.topic_id, partition.index)
                count = int.from_bytes(bytes(partition.records or b"")[57:61], "big")
                if 0 < count < 1000:
                    producer.sequences[where] = (producer.sequences.get(where, 0) + count) % 2**31

    def _good_client(self) -> None:
        """Plays the good client: requests everything that the other clients may have damaged. Each request must get a
        response.
        """
        for number in range(self.world.setting.brokers):
            self._do(Step("start broker", number))
        for name in LASTING:
            key = KEYS[name]
            newest = served_by(self.world.engine)[key][1]
            made = self.author.request(key, newest, mutations=0)
            self._correlation += 1
            responses = self._do(Step("send", GOOD, frame(key, newest, self._correlation, made.body)))
            responses += self._do(Step("turns"))
            if not any(response.link == GOOD for response in responses):  # a Fetch may wait, and a fault may delay any response
                responses += self._do(Step("wait", ms=1000))
            if GOOD not in self.world.links:
                raise Finding(f"a good client's {name} v{newest} is closed", "")
            if not any(response.link == GOOD for response in responses):
                raise Finding(f"a good client's {name} v{newest} is not answered", "")


def replay(script: Script, in_the_end: bool = True) -> Finding | None:
    """Play a script again. Returns the finding, or None."""
    world = World(script.setting)
    try:
        for step in script.steps:
            world.do(step)
        if in_the_end:
            world.finish()
    except Finding as found:
        return found
    finally:
        world.close()
    return None


def still_fails(setting: Setting, kind: str) -> Callable[[Sequence[Step]], bool]:
    """Returns a function that tells whether steps lead to a finding of this kind."""

    def fails(steps: Sequence[Step]) -> bool:
        found = replay(Script(setting, tuple(steps)))
        return found is not None and found.kind == kind

    return fails
