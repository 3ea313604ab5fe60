"""Streams groups (KIP-1071): timeouts, restarts, rights and internal topics. They are tested over the wire with a frozen clock.

The recorded dialogues test the responses to valid and invalid requests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors import Member
from kafkawire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from requesting import plain
from test_consumer_groups import written
from wirebroker import MockKafka
from wirebroker.common.slices import at_once
from wirebroker.core.groups.sticky_assignor import Assignable, Work, sticky
from wirebroker.core.groups.streams_member import NOTHING, Tasks
from wirebroker.core.java_order import JavaHeap
from wirekit import client

DELAYED, MISSING_SOURCES, MISSING_INTERNAL, SHUTDOWN = 5, 1, 3, 4
UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID, INVALID_PARTITIONS, GROUP_ID_NOT_FOUND = -1, 25, 37, 69
NO_TASKS: dict[str, object] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


def topic(name: str, factor: int = 0) -> dict[str, object]:
    """Returns an internal topic for a topology."""
    return {"name": name, "partitions": 0, "replication_factor": factor, "topic_configs": []}


def topology(factor: int = 0) -> dict[str, object]:
    """Returns a topology that counts the words in topic "in". The broker must create the changelog topic of the topology's
    store.
    """
    empty: dict[str, object] = {
        "source_topic_regex": [], "repartition_sink_topics": [], "repartition_source_topics": [], "copartition_groups": [],
    }  # fmt: skip
    counts = {"subtopology_id": "0", "source_topics": ["in"], "state_changelog_topics": [topic("log", factor)]}
    return {"epoch": 0, "subtopologies": [counts | empty]}


class App:
    """The members of the streams group "app"."""

    def __init__(self, kafka: MockKafka, **settings: object) -> None:
        self.kafka, self.wire = kafka, client(kafka)
        self._epochs: dict[str, int] = {}
        self._tasks: dict[str, dict[str, Any]] = {}
        changes = [{"name": f"streams.{name}", "config_operation": 0, "value": str(value)} for name, value in settings.items()]
        resource = {"resource_type": 32, "resource_name": "app", "configs": changes}
        altered = self.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        assert altered.responses[0].error_code == 0, altered
        self.ask("FindCoordinator", 4, key_type=0, coordinator_keys=["app"])

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Send a request."""
        return self.wire.request(plain(api, **fields), version)

    def close(self) -> None:
        """Close the connection. The next request opens another connection."""
        self.wire.close()

    def beat(self, member: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Sends a heartbeat. With it, a member joins, or reports the tasks of its last assignment."""
        epoch = self._epochs.get(member, 0)
        body: dict[str, Any] = {
            "group_id": "app", "member_id": member, "member_epoch": epoch, "endpoint_information_epoch": 0,
        } | self._tasks.get(member, NO_TASKS)  # fmt: skip
        if epoch == 0:
            joining = {"rebalance_timeout_ms": 5000, "topology": topology(), "process_id": f"p-{member}", "client_tags": []}
            body |= joining | NO_TASKS
        response: StreamsGroupHeartbeatResponse = self.ask("StreamsGroupHeartbeat", 0, **(body | fields))
        if not response.error_code:
            self._epochs[member] = max(response.member_epoch, 0)
            if response.active_tasks is not None:
                self._tasks[member] = {
                    kind: [
                        {"subtopology_id": each.subtopology_id, "partitions": each.partitions}
                        for each in getattr(response, kind)
                    ]
                    for kind in NO_TASKS
                }
        return response

    def active(self, member: str) -> list[int]:
        """Returns the partitions of a member's active tasks."""
        return [index for each in self._tasks[member]["active_tasks"] for index in each["partitions"]]

    def describe(self) -> Any:
        """Returns the group as StreamsGroupDescribe shows it."""
        response = self.ask("StreamsGroupDescribe", 0, group_ids=["app"], include_authorized_operations=False)
        return response.groups[0]


def told(response: StreamsGroupHeartbeatResponse) -> list[int]:
    """Returns the status codes in a response."""
    return [each.status_code for each in response.status or ()]


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka(topics={"in": 4}, clock="frozen") as kafka:
        yield kafka


@pytest.fixture
def app(kafka: MockKafka) -> Iterator[App]:
    with closing(App(kafka, **{"initial.rebalance.delay.ms": 0, "assignment.interval.ms": 0})) as app:
        yield app


def test_the_response_says_why_an_internal_topic_could_not_be_created(app: App) -> None:
    app.beat("a", topology=topology(factor=3))
    response = app.beat("a")
    assert told(response) == [MISSING_INTERNAL]
    assert response.status is not None
    detail = response.status[0].status_detail
    assert detail.startswith(
        "Internal topics are missing: log; Creation failed: log (Unable to replicate the partition 3 time(s)"
    )
    app.kafka.clock.advance(seconds=10.1)
    response = app.beat("a")
    assert [each.status_detail for each in response.status or ()] == ["Internal topics are missing: log"]


def test_a_member_that_does_not_give_up_its_tasks_in_time_is_removed(app: App) -> None:
    app.beat("a")
    app.beat("a")
    app.beat("b")
    app.beat("a")
    app.kafka.clock.advance(seconds=5.1)
    assert app.beat("a").error_code == UNKNOWN_MEMBER_ID
    app.beat("b")
    assert app.active("b") == [0, 1, 2, 3]


def test_what_a_member_sent_is_written_again_only_if_it_changes(app: App) -> None:
    for member in ("a", "a", "b", "a", "a", "b"):
        app.beat(member)
    assert app.active("b")
    rows = [(kind, member) for kind, member, _ in written(app.kafka, "app")]
    assert [member for kind, member in rows if kind == "StreamsGroupMemberMetadata"] == ["a", "b"]
    assert rows.count(("StreamsGroupCurrentMemberAssignment", "a")) > 1


def test_a_silent_member_is_removed(app: App) -> None:
    app.beat("a")
    app.kafka.clock.advance(seconds=44)
    app.beat("b")
    app.kafka.clock.advance(seconds=2)
    assert [each.member_id for each in app.describe().members] == ["b"]


@pytest.mark.parametrize("mode", ["clean", "kill"])
def test_a_group_survives_a_restart(tmp_path: Path, mode: str) -> None:
    settings = {"initial.rebalance.delay.ms": 0, "assignment.interval.ms": 0}
    with MockKafka(topics={"in": 4}, data=tmp_path, clock="frozen") as kafka, closing(App(kafka, **settings)) as app:
        for _ in range(4):
            for member in ("a", "b"):
                app.beat(member)
        before = app.describe()
        app.close()
        kafka.restart(mode)
        after = app.describe()
        assert (after.group_state, after.group_epoch, after.assignment_epoch) == ("Stable", 3, 3)
        assert sorted(after.members, key=str) == sorted(before.members, key=str)
        assert app.beat("a").active_tasks is None, "the member keeps its tasks"
        app.beat("a", member_epoch=-1)
        app.beat("b", member_epoch=-1)
        app.ask("DeleteGroups", 2, groups_names=["app"])
        app.close()
        kafka.restart(mode)
        assert app.describe().error_code == GROUP_ID_NOT_FOUND


def opened(folder: Path) -> Generator[MockKafka]:
    """Yields one broker after another. Each broker starts with the files of the previous broker."""
    while True:
        with MockKafka(topics={"in": 4}, clock="frozen", data=folder) as kafka:
            yield kafka


def restarted(_: Path) -> Generator[MockKafka]:
    """Yields the same broker in memory again and again, and restarts it each time."""
    with MockKafka(topics={"in": 4}, clock="frozen") as kafka:
        while True:
            yield kafka
            kafka.restart("kill")


@pytest.mark.parametrize("brokers", [opened, restarted])
def test_a_restart_does_not_hide_new_partitions_from_groups(
    brokers: Callable[[Path], Generator[MockKafka]], tmp_path: Path
) -> None:
    """A coordinator knows which partitions existed when a group's epoch last rose. It still knows this after a restart."""
    again = brokers(tmp_path)
    kafka = next(again)
    app = App(kafka, **{"initial.rebalance.delay.ms": 0, "assignment.interval.ms": 0})
    member = Member(kafka, "m", group="team")
    share = {"group_id": "shared", "member_id": "m", "rack_id": None}
    joined = app.ask("ShareGroupHeartbeat", 1, **share, member_epoch=0, subscribed_topic_names=["in"])
    member.join("in")

    def beat() -> tuple[int, int, int]:
        """Sends a heartbeat to each group, and returns the groups' epochs."""
        kafka.clock.advance(seconds=2)
        beaten = app.ask("ShareGroupHeartbeat", 1, **share, member_epoch=joined.member_epoch, subscribed_topic_names=None)
        assert beaten.error_code == 0
        joined.member_epoch = beaten.member_epoch
        app.beat("a")
        member.beat()
        shared = app.ask("ShareGroupDescribe", 1, group_ids=["shared"], include_authorized_operations=False).groups[0]
        return app.describe().group_epoch, shared.group_epoch, member.epoch

    for partitions, rises in ((8, 1), (8, 0)):
        epochs = [beat() for _ in range(5)][-1]
        more = [{"name": "in", "count": partitions, "assignments": None}]
        made = app.ask("CreatePartitions", 2, topics=more, timeout_ms=1000, validate_only=False)
        assert made.results[0].error_code == (0 if rises else INVALID_PARTITIONS)
        app.close()
        kafka = next(again)
        app.kafka, app.wire = kafka, client(kafka)
        member.broker, member.wire = kafka, client(kafka)
        assert beat() == tuple(epoch + rises for epoch in epochs)
    app.close()
    again.close()


def test_the_group_is_shown_to_python(app: App) -> None:
    app.beat("a")
    app.beat("a")
    shown = app.kafka.groups()["app"]
    assert (shown.type, shown.state, shown.protocol) == ("streams", "Stable", "sticky")
    assert [(each.topic, list(each.partitions)) for each in shown.members[0].assignment or ()] == [("in", [0, 1, 2, 3])]


def test_the_heap_gives_out_equal_elements_in_javas_order() -> None:
    heap = JavaHeap(["a0", "b0", "c0", "d0", "e0"], lambda each: int(each[1]))
    found = []
    for _ in range(9):
        found.append(least := heap.pop())
        heap.push(f"{least[0]}{int(least[1]) + 1}")
    assert found == ["a0", "e0", "b0", "d0", "c0", "d1", "c1", "e1", "a1"], "the order of java.util.PriorityQueue"


def test_the_assignor_keeps_tasks_and_levels_the_rest() -> None:
    had = Tasks(active={("0", 0): 0, ("0", 1): 0, ("0", 2): 0, ("0", 3): 0})
    members = [Assignable("a", "p", had), Assignable("b", "q", NOTHING)]
    made = at_once(sticky(members, [Work("0", 4, False)], 0, is_newest=True))
    assert {member_id: sorted(tasks.active) for member_id, tasks in made.items()} == {
        "a": [("0", 0), ("0", 1)], "b": [("0", 2), ("0", 3)],
    }  # fmt: skip


@pytest.mark.parametrize(("is_newest", "first"), [(False, "one"), (True, "two")])
def test_the_first_task_goes_to_the_first_process_in_kafkas_hash_table(is_newest: bool, first: str) -> None:
    """If there are two processes, Kafka's hash table has four places until 4.3, and two places since 4.4."""
    members = [Assignable("two", "p2", NOTHING), Assignable("one", "p1", NOTHING)]
    made = at_once(sticky(members, [Work("0", 1, False)], 0, is_newest=is_newest))
    assert [each for each, tasks in made.items() if tasks.active] == [first]


def test_a_refused_heartbeat_does_not_hide_the_topology_that_was_shown(kafka: MockKafka, app: App) -> None:
    endpoint = {"user_endpoint": {"host": "here", "port": 80}}
    for _ in range(3):
        assert app.beat("a", **endpoint).error_code == 0
    shown = app.describe().topology
    assert [each.partitions for each in shown.subtopologies[0].state_changelog_topics] == [4]
    kafka.delete_topic("in")
    assert app.beat("a", endpoint_information_epoch=-1).error_code == UNKNOWN_SERVER_ERROR, "as in Kafka, whose code fails here"
    assert app.describe().topology == shown


def test_the_first_member_that_ends_the_application_is_told(app: App) -> None:
    for member in ("a", "b"):
        app.beat(member)
    for member in ("a", "b"):
        details = [each.status_detail for each in app.beat(member, shutdown_application=True).status or ()]
        assert [detail.partition(" encountered")[0] for detail in details] == ["Streams group member a"]
