"""If state is created and removed again, the broker describes and keeps the same state as before. This also holds after a
restart with the same data. As in Kafka, an empty container is not kept as state.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from held import held
from inprocess import InProcess
from requesting import Plain, named, new_topic
from state_changes import ACL, ALTERED, SETTINGS
from test_unwritable_texts import ANY_ACL, Client
from wirebroker.trace.recorder import errors_in

Request = tuple[str, int, Plain]


def altered(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Request:
    """Returns an IncrementalAlterConfigs with `changes`. Each change has a name, an operation and a value."""
    configs = [{"name": setting, "config_operation": operation, "value": value} for setting, operation, value in changes]
    return "IncrementalAlterConfigs", 1, {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


def replaced(kind: int, name: str, **settings: str) -> Request:
    """Returns an AlterConfigs, which replaces all settings of a resource. In the names of `settings`, `_` stands for a dot."""
    configs = [{"name": setting.replace("_", "."), "value": value} for setting, value in settings.items()]
    return "AlterConfigs", 2, {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


def quota(remove: bool, *names: str, **limits: float) -> Request:
    entity = [{"entity_type": kind, "entity_name": "x"} for kind in names]
    ops = [{"key": key, "value": value, "remove": remove} for key, value in limits.items()]
    return "AlterClientQuotas", 1, {"entries": [{"entity": entity, "ops": ops}]}


def scram(mechanism: int, *, removes: bool) -> Request:
    user = {"name": "alice", "mechanism": mechanism}
    made = [] if removes else [user | {"iterations": 4096, "salt": b"salt", "salted_password": b"secret"}]
    return "AlterUserScramCredentials", 0, {"deletions": [user] if removes else [], "upsertions": made}


def pairs() -> Iterator[tuple[str, list[Request]]]:
    """For each kind of state, yields its name, and the requests that create and remove such state. Loggers are left out. If a
    logger's own level is removed, the logger inherits a level, so its state is not the same as before."""
    for kind, name, setting, value in ALTERED:
        where = f"{setting} of {kind} {name!r}"
        yield where, [altered(kind, name, (setting, 0, value)), altered(kind, name, (setting, 1, None))]
        yield f"{where}, which it does not have", [altered(kind, name, (setting, 1, None))]
        if (kind, name) != (4, ""):
            changed = altered(kind, name, (setting, 0, value))
            yield f"{where}, replaced", [changed, replaced(kind, name)]
            yield f"{where}, replaced by nothing", [replaced(kind, name)]
    for names in (["user"], ["client-id"], ["user", "client-id"]):
        limits = {"producer_byte_rate": 10.0, "consumer_byte_rate": 10.0}
        yield f"quotas of {names}", [quota(False, *names, **limits), *(quota(True, *names, **{key: 0.0}) for key in limits)]
        yield f"quotas that {names} do not have", [quota(True, *names, **limits)]
    for pattern in (3, 4):
        acl = ACL | {"resource_name": "secret", "resource_pattern_type": pattern, "principal": "User:alice"}
        yield (
            f"an ACL of pattern {pattern}",
            [("CreateAcls", 3, {"creations": [acl]}), ("DeleteAcls", 3, {"filters": [ANY_ACL]})],
        )
    yield "SCRAM", [scram(1, removes=False), scram(2, removes=False), scram(1, removes=True), scram(2, removes=True)]
    for name in ("new", "new.with_dots"):
        made = [new_topic(name, 2, retention_ms="1000")]
        yield (
            f"topic {name}",
            [
                ("CreateTopics", 7, {"topics": made, "timeout_ms": 5000}),
                ("DeleteTopics", 5, {"topic_names": [name], "timeout_ms": 5000}),
            ],
        )
    for feature, level, lower in (("transaction.version", 2, 0), ("share.version", 1, 0)):
        yield (
            feature,
            [
                (
                    "UpdateFeatures",
                    1,
                    {
                        "feature_updates": [{"feature": feature, "max_version_level": to, "upgrade_type": how}],
                        "timeout_ms": 5000,
                    },
                )
                for to, how in ((lower, 2), (level, 1))
            ],
        )
    yield from groups()


def groups() -> Iterator[tuple[str, list[Request]]]:
    delete: Request = ("DeleteGroups", 2, {"groups_names": ["g"]})
    part = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    commit: Plain = {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1}
    committed = ("OffsetCommit", 9, commit | {"topics": named(["orders"], partitions=part)})
    deleted = ("OffsetDelete", 0, {"group_id": "g", "topics": named(["orders"], partitions=[{"partition_index": 0}])})
    yield "offsets", [committed, deleted, delete]
    yield "offsets with their group", [committed, delete]
    yield "no offsets", [("OffsetCommit", 9, commit | {"topics": []}), delete]
    times = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000}
    member: Plain = {"group_id": "g", "member_id": "", "group_instance_id": "one"}
    join = member | times | {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    left = [{"member_id": "", "group_instance_id": "one"}]
    yield "a classic member", [("JoinGroup", 9, join), ("LeaveGroup", 5, {"group_id": "g", "members": left}), delete]
    at: Plain = {"group_id": "g", "member_id": "AAAAAAAAAAAAAAAAAAAAAA", "subscribed_topic_names": ["orders"]}
    modern: Plain = {"topic_partitions": [], "rebalance_timeout_ms": 60_000}
    for api, fields in (("ConsumerGroupHeartbeat", at | modern), ("ShareGroupHeartbeat", at)):
        yield api, [(api, 1, fields | {"member_epoch": 0}), (api, 1, fields | {"member_epoch": -1}), delete]


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_what_is_removed_leaves_nothing_behind(on_disk: bool, tmp_path: Path) -> None:
    options = {"configs": SETTINGS, "topics": {"orders": 1}, "data": tmp_path / "data" if on_disk else None, "warm": True}
    made = InProcess(**options)
    client = Client(made)
    for what, sent in pairs():
        before, shown = held(made.engine), client.shown()
        for api, version, fields in sent:
            client.ask(api, version, **fields)
        assert client.shown() == shown, what
        after = held(made.engine)
        assert {way: keys for way, keys in after.items() if before.get(way) != keys} == {}, what
    if on_disk:
        made.engine.store.close(made.clock.now())
        again = InProcess(**options)
        for api, response in Client(again).shown().items():
            if api not in ("Metadata", "DescribeTopicPartitions"):  # a start begins new leader epochs
                assert response == shown[api]


def test_moves_there_and_back_leave_nothing_behind() -> None:
    made = InProcess(configs={"log.dirs": "/a,/b"}, topics={"orders": 1}, brokers=2, warm=True)
    client = Client(made)
    there_and_back = [
        [("AlterPartitionReassignments", 0, {"timeout_ms": 5000, "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "replicas": nodes}]}
        ]}) for nodes in ([2], [1, 2], None, [1])],
        [("AlterReplicaLogDirs", 2, {"dirs": [{"path": path, "topics": [{"name": "orders", "partitions": [0]}]}]})
         for path in ("/b", "/a")],
    ]  # fmt: skip
    for sent in there_and_back:
        before = held(made.engine)
        for api, version, fields in sent:
            response = client.ask(api, version, **fields)
            assert not errors_in(response) or fields["topics"][0]["partitions"][0]["replicas"] is None, response
            made.clock.advance(seconds=60)
        assert client.ask("ListPartitionReassignments", 0, timeout_ms=5000, topics=None).topics == []
        after = held(made.engine)
        assert {way: keys for way, keys in after.items() if before.get(way) != keys} == {}, sent
