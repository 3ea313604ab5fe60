"""ACLs: permissions (compared with the recording of a real Kafka), the effect of single ACLs, and a broker with ACLs."""

from __future__ import annotations

import json
import lzma
import re
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import confluent_kafka
import confluent_kafka.admin
import pytest

from acl_requests import (
    ANY,
    HIDDEN_PARTITIONS,
    MIXED,
    RIGHTS,
    SEEN,
    SETTINGS,
    SINGLE,
    USERS,
    Client,
    Step,
    log_in,
    mixes,
    other_versions,
    plain_request,
    play,
    prepare,
    recorded_by,
    requests,
    restore,
)
from controlkit import ControlClient
from kafkawire import entities
from kafkawire.codec import encode
from kafkawire.errors import ErrorCode
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.primitives import format_uuid
from kafkawire.registry import KEYS, request_class, spoken
from requesting import plain, produce_request
from responses import only, parts, sole
from wirebroker import MockKafka, faults
from wirebroker.apis import IN_ZOOKEEPER, SERVED, TELEMETRY, permissions
from wirebroker.apis import acls as acls_apis
from wirebroker.client.wire import Connection, ConnectionClosed, address_of
from wirebroker.commands.cli import build_parser
from wirebroker.commands.serve import broker_options
from wirebroker.core import acls as core_acls
from wirebroker.core.acls import EVERYBODY, About, Acl, Acls, Filter, Operation, PatternType, Permission, ResourceType, Ruling
from wirebroker.core.cluster import Cluster
from wirebroker.core.config_resources import Alteration
from wirebroker.core.releases import release
from wirebroker.net.driver import host_of
from wirebroker.security.acl_specs import acl_of, text_of
from wirebroker.testing import states
from wirebroker.testing.options import OptionError
from wirekit import batch

KAFKA = "4.3.1"
ALICE = "User:alice"
PREFIXED = PatternType.PREFIXED
ASKED = {each for each in SERVED if KEYS[each] in release("4.3").announced} | {*TELEMETRY}
"""The APIs of Kafka 4.3.1."""


def secured(**options: Any) -> MockKafka:
    """Returns a broker with an authorizer. The user `admin` has all rights."""
    configs = SETTINGS | options.pop("configs", {})
    return MockKafka(security="sasl_plaintext", users=USERS, configs=configs, **options)


def connect(kafka: MockKafka, user: str) -> Connection:
    return log_in(address_of(kafka.bootstrap_servers), user)


def results(kafka: MockKafka, user: str, api: str, version: int, body: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Returns the name, the error code and the message of each result in a response."""
    response: Any = connect(kafka, user).request(plain_request(api, body), version)
    listed = getattr(response, "results", None) or response.responses
    named = [
        next(getattr(each, name) for name in ("resource_name", "group_id", "name") if hasattr(each, name)) for each in listed
    ]
    return sorted((name, each.error_code, each.error_message or "") for name, each in zip(named, listed, strict=True))


def allow(kafka: MockKafka, *acls: dict[str, Any]) -> None:
    """Create `acls` as the user `admin`."""
    response: Any = connect(kafka, "admin").request(plain_request("CreateAcls", {"creations": list(acls)}), 3)
    assert {each.error_code for each in response.results} == {0}


def entry(operation: int, name: str = "orders", kind: int = ResourceType.TOPIC, **changes: Any) -> dict[str, Any]:
    """Returns an ACL of alice for CreateAcls."""
    return {
        "resource_type": kind, "resource_name": name, "resource_pattern_type": 3, "principal": ALICE, "host": "*",
        "operation": operation, "permission_type": 3,
    } | changes  # fmt: skip


# Against the recording


def recorded() -> list[Step]:
    packed = Path(__file__).with_name("data").joinpath(recorded_by(KAFKA)).read_bytes()
    return [Step(*each) for each in json.loads(lzma.decompress(packed))]


@pytest.fixture(scope="module")
def responses() -> dict[str, list[tuple[Step, Step]]]:
    """For each set of rights that alice has: pairs of a step as recorded on Kafka, and the same step as played on
    wirebroker.
    """
    with secured(telemetry=True, profile="kafka-4.3") as kafka:
        pause = partial(kafka.clock.advance, seconds=2)
        played = [Step(*json.loads(json.dumps(each))) for each in play(address_of(kafka.bootstrap_servers), pause)]
    by_rights: dict[str, list[tuple[Step, Step]]] = {}
    for theirs, ours in zip(recorded(), played, strict=True):
        by_rights.setdefault(theirs.rights, []).append((theirs, ours))
    return by_rights


@pytest.mark.xdist_group("recorded rights")  # the fixture takes ten seconds, so it must not run in each process
@pytest.mark.parametrize("rights", ["admin", *SINGLE, *RIGHTS, *SEEN])
def test_every_api_responds_as_kafka_to_a_client_with_these_rights(rights: str, responses: dict[str, Any]) -> None:
    different = [(theirs, ours) for theirs, ours in responses[rights] if theirs != ours]
    assert not different, f"{len(different)} of {len(responses[rights])} responses differ; the first: {different[0]}"


def test_kafka_was_asked_for_every_api_with_each_of_these_rights() -> None:
    asked: dict[str, set[str]] = {rights: set() for rights in (*SINGLE, *RIGHTS)}
    for step in recorded():
        asked.setdefault(step.rights, set()).add(step.name.split()[0])
    assert [rights for rights in (*SINGLE, *RIGHTS) if asked[rights] != ASKED] == []


def test_every_api_that_takes_names_beside_ids_was_asked_with_every_mix() -> None:
    def takes(cls: Any, version: int, entity: entities.Entity) -> bool:
        present = [each for each in cls.__wire__ if each.present(version)]
        kinds = [each.spec[0] if isinstance(each.spec, list) else each.spec for each in present]
        within = any(takes(kind, version, entity) for kind in kinds if isinstance(kind, type))
        return within or any(each.entity == entity for each in present)

    def takes_both(key: int) -> bool:
        versions = range(spoken(key)[0], spoken(key)[1] + 1)
        return any(all(takes(request_class(key), v, entity) for entity in ("topicName", "topicId")) for v in versions)

    assert {name for name in (*SERVED, *TELEMETRY) if takes_both(KEYS[name])} == set(MIXED)


def test_no_response_tells_a_client_of_a_topic_on_which_it_has_no_rights() -> None:
    others = [entry(Operation.ALL, "*", kind) for kind in (ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)]
    told, apis = [], set()
    with secured(telemetry=True) as kafka:
        address = address_of(kafka.bootstrap_servers)
        ids = prepare(address)
        restore(Client(address, "admin", {}))
        allow(kafka, entry(Operation.ALL, "mine"), *others)
        alice, asked = Client(address, "alice", {}), list(requests(ids))
        for name, version, request in [*asked, *other_versions(asked), *mixes(ids)]:
            apis.add(name.split()[0])
            if (response := alice.raw(request, version)) is not None:
                given, seen = encode(request, version), encode(response, version)
                told += [(name, version, each) for each in (b"hidden", ids["hidden"]) if each in seen and each not in given]
                indexes = entities.values(response, "partition")
                told += [(name, version, each) for each in indexes if 0 < each < HIDDEN_PARTITIONS]
    # Kafka, too, returns the id of a topic whose name the client knows already.
    assert [each for each in told if each[0] != "AlterShareGroupOffsets"] == []
    assert apis == ASKED


def test_every_served_api_has_a_rule_or_is_said_to_be_open() -> None:
    assert sorted([*permissions.RULES, *permissions.OPEN]) == sorted([*SERVED, *TELEMETRY, *IN_ZOOKEEPER])


def test_an_api_that_nobody_has_thought_of_is_not_served(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alice, request = connect(kafka, "alice"), plain_request("ListOffsets", {"replica_id": -1, "topics": []})
    alice.request(request, 7)
    monkeypatch.delitem(permissions.RULES, "ListOffsets")
    with pytest.raises(ConnectionClosed):
        alice.request(request, 7)
    assert "ListOffsets has no rule in permissions.py" in caplog.text


# The meaning of ACLs


def acl(operation: Operation, name: str = "orders", **changes: Any) -> Acl:
    made = Acl(ResourceType.TOPIC, name, PatternType.LITERAL, ALICE, "*", operation, Permission.ALLOW)
    return made._replace(**changes)


def denial(operation: Operation, name: str, **changes: Any) -> Acl:
    return acl(operation, name, permission=Permission.DENY, **changes)


def ruling(acls: list[Acl], operation: Operation, name: str = "orders", host: str = "10.0.0.1") -> Ruling:
    known = Acls()
    for number, each in enumerate(acls):
        known.add(each, bytes([number]))
    return core_acls.ruling(known.about(ResourceType.TOPIC, name, ALICE), host, operation)


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([acl(Operation.WRITE)], True),
        ([acl(Operation.WRITE, principal=EVERYBODY)], True),
        ([acl(Operation.WRITE, principal="User:bob")], False),
        ([acl(Operation.WRITE, host="10.0.0.2")], False),
        ([acl(Operation.WRITE, host="10.0.0.1")], True),
        ([acl(Operation.READ)], False),
        ([acl(Operation.ALL)], True),
        ([acl(Operation.WRITE, name="*")], True),
        ([acl(Operation.WRITE, name="ord", pattern_type=PREFIXED)], True),
        ([acl(Operation.WRITE, name="ord")], False),
        ([acl(Operation.WRITE), denial(Operation.WRITE, "or", pattern_type=PREFIXED)], False),
        ([acl(Operation.WRITE), denial(Operation.ALL, "*")], False),
        ([acl(Operation.WRITE), denial(Operation.READ, "orders")], True),
    ],
)
def test_an_acl_that_denies_outweighs_all_that_allow(acls: list[Acl], allowed: bool) -> None:
    assert ruling(acls, Operation.WRITE).allowed is allowed


def test_the_right_to_read_or_write_implies_the_right_to_describe_and_a_denial_implies_nothing() -> None:
    assert ruling([acl(Operation.READ)], Operation.DESCRIBE).allowed
    assert ruling([acl(Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS).allowed
    assert not ruling([acl(Operation.CREATE)], Operation.DESCRIBE).allowed
    denied = denial(Operation.READ, "orders")
    assert ruling([acl(Operation.DESCRIBE), denied], Operation.DESCRIBE).allowed


def test_a_ruling_names_the_acl_that_decides_and_tells_whether_any_is_about_the_resource() -> None:
    assert ruling([acl(Operation.READ, name="other")], Operation.READ) == Ruling(False, None, known=False)
    assert ruling([acl(Operation.READ, principal="User:bob")], Operation.READ) == Ruling(False, None, known=True)
    denies = denial(Operation.ALL, "o", pattern_type=PREFIXED)
    told = ruling([acl(Operation.READ), denies], Operation.READ)
    assert told == Ruling(False, denies)
    assert str(told.by) == "an ACL denies User:alice ALL on TOPIC o*"


def test_an_acl_that_is_removed_is_about_nothing() -> None:
    known = Acls()
    made = [
        acl(Operation.READ, "ord", pattern_type=PREFIXED),
        acl(Operation.WRITE, "ord", pattern_type=PREFIXED),
        acl(Operation.READ),
    ]
    for each in made:
        known.add(each, b"")
    assert known.about(ResourceType.TOPIC, "orders", ALICE) == About([made[2], made[0], made[1]], known=True)
    assert known.about(ResourceType.TOPIC, "orders", "User:bob") == About([], known=True)
    assert known.about(ResourceType.TOPIC, "or", ALICE) == About([], known=False)
    for each in made[:2]:
        known.remove(each)
    assert known.about(ResourceType.TOPIC, "orders", ALICE).acls == [made[2]]


@pytest.mark.parametrize(
    ("acls", "some"),
    [
        ([], False),
        ([acl(Operation.WRITE, name="x")], True),
        ([acl(Operation.WRITE, name="x"), denial(Operation.WRITE, "x")], False),
        ([acl(Operation.WRITE, name="xy"), denial(Operation.ALL, "x", pattern_type=PREFIXED)], False),
        ([acl(Operation.WRITE, name="xy", pattern_type=PREFIXED), denial(Operation.WRITE, "xyz")], True),
        ([acl(Operation.WRITE, name="*"), denial(Operation.WRITE, "*")], False),
        ([acl(Operation.READ, name="*")], False),
    ],
)
def test_a_producer_without_transactions_needs_the_right_to_write_to_some_topic(acls: list[Acl], some: bool) -> None:
    known = Acls()
    for each in acls:
        known.add(each, b"")
    assert known.allows_some(ALICE, "10.0.0.1", Operation.WRITE, ResourceType.TOPIC) is some


# Hosts, as on Kafka 4.4.0

HAS_IPV6 = socket.has_dualstack_ipv6()
V4, V6 = "127.0.0.1", "0:0:0:0:0:0:0:1"
"""The addresses of clients, as Java writes them."""


@pytest.mark.parametrize(
    ("host", "clients"),
    [
        ("::1", ""), (V6, V6), ("[::1]", ""), ("::1/128", V6), ("[::1]/128", V6), ("::/0", V6), ("00::1/+0128", V6),
        ("::1%eth0/64", V6), (V4, V4), ("127.0.0.0/8", V4), ("127.255.255.255/08", V4), ("::ffff:127.0.0.1", ""),
        ("::127.0.0.1/96", V6), ("localhost", ""), ("10.1.2.3/8", ""), ("0.0.0.0/0", V4),
    ],
)  # fmt: skip
def test_the_host_of_an_acl_is_compared_with_javas_address_of_the_client(host: str, clients: str) -> None:
    acls = [acl(Operation.READ, host=host)]
    assert "".join(each for each in (V4, V6) if ruling(acls, Operation.READ, host=each).allowed) == clients


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("1.2.3.4/96", "Value [96] not in range [0,32]"), ("256.1.1.1/99", "Value [256] not in range [0,255]"),
        ("1.2.3.4/008", "Could not parse [1.2.3.4/008]"), ("*/8", "Could not parse [*/8]"),
        ("::ffff:127.0.0.1/104", "Could not parse [::ffff:127.0.0.1] - not an IPv6 address"),
        ("::ffff:0:0/96", "Could not parse [::ffff:0:0] - not an IPv6 address"), ("[::1/8", "Could not parse [[::1]"),
        ("1::2::3/999", "Could not parse [1::2::3/999] - prefix length must be between 0 and 128"),
        ("1::2::3/64", "Could not parse [1::2::3]"), ("::1/x", "Could not parse [::1/x] - invalid prefix length"),
        ("/8:", "Could not parse [/8:] - invalid prefix length"), ("1.2.3.4::/96", "Could not parse [1.2.3.4::]"),
    ],
)  # fmt: skip
def test_networks_that_kafka_refuses(kafka: MockKafka, host: str, why: str) -> None:
    creation = plain_request("CreateAcls", {"creations": [entry(Operation.READ, host=host)]})
    result = only(connect(kafka, "admin").request(creation, 3))
    assert (result.error_code, result.error_message) == (42, f"Invalid CIDR notation '{host}': {why}")


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ((V4, 1), V4), (("::1", 1, 0, 0), V6), (("::ffff:10.0.0.1", 1, 0, 0), "10.0.0.1"),
        (("fe80::fc:ff:fe00:1", 1, 0, 4), "fe80:0:0:0:fc:ff:fe00:1%4"), (("fe80::1%eth0", 1, 0, 4), "fe80:0:0:0:0:0:0:1%4"),
    ],
)  # fmt: skip
def test_a_client_has_the_address_that_java_shows(peer: tuple[Any, ...], host: str) -> None:
    assert host_of(*peer) == host


@pytest.mark.skipif(not HAS_IPV6, reason="this machine has no IPv6")
def test_a_client_over_ipv6_meets_acls_with_javas_form_of_its_address() -> None:
    with secured(topics=["orders", "hidden"], host="::1") as kafka:
        allow(kafka, entry(Operation.DESCRIBE, host=V6), entry(Operation.DESCRIBE, "hidden", host="::1"))
        named = [{"name": name} for name in ("orders", "hidden")]
        asked = plain_request("Metadata", {"topics": named, "allow_auto_topic_creation": False})
        response: Any = connect(kafka, "alice").request(asked, 9)
        assert {each.name: each.error_code for each in response.topics} == {"orders": 0, "hidden": 29}


def test_a_filter_that_matches_finds_what_applies_to_a_name() -> None:
    applies = Filter(ResourceType.ANY, "orders", PatternType.MATCH, None, None, Operation.ANY, Permission.ANY)
    assert applies.matches(acl(Operation.READ))
    assert applies.matches(acl(Operation.READ, name="*"))
    assert applies.matches(acl(Operation.READ, name="ord", pattern_type=PREFIXED))
    assert not applies.matches(acl(Operation.READ, name="ord"))
    assert not applies.matches(acl(Operation.READ, name="orders.eu", pattern_type=PREFIXED))


def test_more_acls_than_kafka_writes_for_one_request_are_refused_as_a_whole(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a request Kafka writes up to 10,000 records. So many would take seconds, so here the broker writes up to 100."""
    assert acls_apis.MOST_RECORDS == 10_000
    monkeypatch.setattr(acls_apis, "MOST_RECORDS", 100)
    admin = connect(kafka, "admin")

    def ask(api: str, **fields: Any) -> Any:
        return admin.request(plain_request(api, fields), 3)

    names = [f"t{number}" for number in range(101)]
    too_many = ask("CreateAcls", creations=[entry(Operation.READ, name) for name in names])
    assert {(each.error_code, each.error_message) for each in too_many.results} == {
        (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    }
    for some in (names[:100], names):  # creating known ACLs again writes no record
        made = ask("CreateAcls", creations=[entry(Operation.READ, name) for name in some])
        assert {each.error_code for each in made.results} == {0}
    one = ANY | {"resource_name_filter": "t1"}
    refused = ask("DeleteAcls", filters=[one, ANY])
    assert {(each.error_code, each.error_message, len(each.matching_acls)) for each in refused.filter_results} == {
        (ErrorCode.INVALID_REQUEST, "Cannot remove more than 10000 acls in a single delete operation.", 0)
    }
    assert [len(each.matching_acls) for each in ask("DeleteAcls", filters=[one, one]).filter_results] == [1, 1]
    assert [len(each.matching_acls) for each in ask("DeleteAcls", filters=[ANY]).filter_results] == [100]


# ACLs in a running broker


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with secured(topics={"orders": 1}) as running:
        yield running


def code_of(connection: Connection) -> int:
    """Produces to orders-0, and returns the error code."""
    return int(only(connection.request(produce_request("orders", batch()), 9)).error_code)


def test_an_acl_that_is_withdrawn_stops_a_busy_producer_at_once(kafka: MockKafka) -> None:
    allow(kafka, entry(Operation.WRITE))
    alice = connect(kafka, "alice")
    assert [code_of(alice) for _ in range(5)] == [0] * 5
    connect(kafka, "admin").request(plain_request("DeleteAcls", {"filters": [ANY]}), 3)
    assert code_of(alice) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    denied = kafka.trace.events("authorization")[-1]
    assert (denied.principal, denied.operation, denied.resource) == (ALICE, "WRITE", "orders")
    assert denied.reason == "the resource has no ACL"
    allow(kafka, entry(Operation.WRITE))
    assert code_of(alice) == 0


def test_a_fetch_session_forgets_no_right(kafka: MockKafka) -> None:
    allow(kafka, entry(Operation.READ), entry(Operation.WRITE))
    alice = connect(kafka, "alice")
    code_of(alice)
    wanted = {"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}
    first: Any = alice.request(
        plain("Fetch", max_wait_ms=0, min_bytes=0, session_epoch=0, topics=[wanted], forgotten_topics_data=[]), 12
    )
    assert only(first).error_code == 0
    allow(kafka, entry(Operation.READ, permission_type=2))
    again = plain(
        "Fetch", max_wait_ms=0, min_bytes=0, session_id=first.session_id, session_epoch=1, topics=[], forgotten_topics_data=[]
    )
    assert only(alice.request(again, 12)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert kafka.trace.events("authorization")[-1].reason == "an ACL denies User:alice READ on TOPIC orders"


@pytest.mark.parametrize("named", [["orders"], ["mine", "orders"], None])
def test_a_group_shows_no_commits_of_topics_that_the_client_may_not_see(kafka: MockKafka, named: list[str] | None) -> None:
    allow(kafka, entry(Operation.READ, "seen", ResourceType.GROUP), entry(Operation.DESCRIBE, "mine"))
    kafka.create_topic("mine")
    admin, alice = connect(kafka, "admin"), connect(kafka, "alice")
    commits = [{"name": name, "partitions": [{"partition_index": 0, "committed_offset": 5}]} for name in ("mine", "orders")]
    admin.request(plain_request("FindCoordinator", {"key": "seen", "key_type": 0}), 3)
    committed = {"group_id": "seen", "generation_id_or_member_epoch": -1, "topics": commits}
    assert {each.error_code for each in parts(admin.request(plain_request("OffsetCommit", committed), 8))} == {0}
    topics = None if named is None else [{"name": name, "partition_indexes": [0]} for name in named]
    groups = [{"group_id": group, "topics": topics} for group in ("hidden", "seen", "hidden")]
    response: Any = alice.request(plain_request("OffsetFetch", {"groups": groups}), 8)
    hidden = ("hidden", ErrorCode.GROUP_AUTHORIZATION_FAILED, {})
    found = {"mine": (5, 0), "orders": (-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    assert [
        (
            group.group_id,
            group.error_code,
            {t.name: (sole(t.partitions).committed_offset, sole(t.partitions).error_code) for t in group.topics},
        )
        for group in response.groups
    ] == [hidden, ("seen", 0, {name: found[name] for name in named or ["mine"]}), hidden]


def test_a_share_session_forgets_no_right(kafka: MockKafka) -> None:
    allow(kafka, entry(Operation.READ), entry(Operation.WRITE), entry(Operation.READ, "g", ResourceType.GROUP))
    alice = connect(kafka, "alice")
    code_of(alice)
    topic = {"topic_id": kafka._call(lambda engine: format_uuid(engine.cluster.topics["orders"].topic_id))}
    epochs = iter(range(5))

    def ask(api: str, *partitions: dict[str, Any], **fields: Any) -> list[int]:
        named = [topic | {"partitions": list(partitions)}] if partitions else []
        session = {"group_id": "g", "member_id": "m", "share_session_epoch": next(epochs), "topics": named}
        return [part.error_code for part in parts(alice.request(plain_request(api, session | fields), 2))]

    fetch: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "max_records": 9, "forgotten_topics_data": []}
    accepted = {
        "partition_index": 0,
        "acknowledgement_batches": [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}],
    }
    assert ask("ShareFetch", {"partition_index": 0, "acknowledgement_batches": []}, **fetch) == []
    allow(kafka, entry(Operation.READ, permission_type=2))
    assert ask("ShareFetch", **fetch) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert ask("ShareAcknowledge", accepted) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("api", ["DescribeGroups", "ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe"])
def test_a_group_with_an_error_has_no_operations(kafka: MockKafka, api: str) -> None:
    admin = connect(kafka, "admin")
    code_of(admin)
    asked = {"DescribeGroups": "groups"}.get(api, "group_ids")
    request = plain_request(api, {asked: ["", "absent"], "include_authorized_operations": True})
    groups = admin.request(request, spoken(KEYS[api])[0] if api != "DescribeGroups" else 5).groups
    told = {group.group_id: group.authorized_operations for group in groups}
    assert told[""] == -(1 << 31)


@pytest.mark.parametrize("api", ["ShareFetch", "ShareAcknowledge"])
def test_an_unknown_topic_in_a_share_session_is_a_server_error(kafka: MockKafka, api: str) -> None:
    allow(kafka, entry(Operation.READ, "g", ResourceType.GROUP))
    alice = connect(kafka, "alice")
    code_of(alice)
    session = {"group_id": "g", "member_id": "m"}
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 9, "max_records": 9, "forgotten_topics_data": []}
    opened = plain_request("ShareFetch", session | limits | {"share_session_epoch": 0, "topics": []})
    assert alice.request(opened, 2).error_code == 0
    nothing = {"partition_index": 0, "acknowledgement_batches": []}
    unknown = {"topic_id": format_uuid(b"\1" * 16), "partitions": [nothing]}
    asked = session | {"share_session_epoch": 1, "topics": [unknown]} | (limits if api == "ShareFetch" else {})
    response = alice.request(plain_request(api, asked), 2)
    assert (response.error_code, response.responses) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


def test_a_classic_member_lets_regular_expressions_be_matched_with_what_it_may_see(kafka: MockKafka) -> None:
    allow(kafka, entry(Operation.READ, "g", ResourceType.GROUP), entry(Operation.DESCRIBE, "mine"))
    admin, alice = connect(kafka, "admin"), connect(kafka, "alice")
    beat = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 60_000, "topic_partitions": []}

    def resolved() -> set[str]:
        return kafka._call(lambda engine: set(engine.groups.groups["g"].resolved[".*"].topics))

    request = plain_request("ConsumerGroupHeartbeat", beat | {"member_epoch": 0, "subscribed_topic_regex": ".*"})
    admin.request(plain_request("FindCoordinator", {"key": "g", "key_type": 0}), 3)
    assert admin.request(request, 1).error_code == 0
    assert "orders" in resolved()
    kafka.create_topic("mine")
    kafka.clock.advance(seconds=11)
    joins: Any = plain_request(
        "JoinGroup",
        {"group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer",
         "protocols": [{"name": "range"}], "member_id": "", "group_instance_id": "i"},
    )  # fmt: skip
    joins.protocols[0].metadata = b"\0\1" + encode(ConsumerProtocolSubscription(topics=["mine"]), 1)
    assert alice.request(joins, 9).error_code == 0
    assert resolved() == {"mine"}


def test_a_produce_that_wants_no_response_and_is_not_allowed_ends_the_connection(kafka: MockKafka) -> None:
    alice = connect(kafka, "alice")
    request = produce_request("orders", batch())
    request.acks = 0
    alice.send(request, 9)
    with pytest.raises(ConnectionClosed):
        code_of(alice)
    assert not kafka.records("orders")


def test_everybody_may_use_what_no_acl_is_about_if_the_setting_says_so() -> None:
    with secured(topics={"orders": 1}, configs={"allow.everyone.if.no.acl.found": "true"}) as kafka:
        alice = connect(kafka, "alice")
        assert code_of(alice) == 0
        allow(kafka, entry(Operation.WRITE, principal="User:bob"))
        assert code_of(alice) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert kafka.trace.events("authorization")[-1].reason == "no ACL allows User:alice WRITE on TOPIC orders"


def test_acls_survive_a_kill_and_a_new_start(tmp_path: Path) -> None:
    with secured(topics={"orders": 1}, data=tmp_path) as kafka:
        allow(kafka, entry(Operation.WRITE), entry(Operation.READ))
        kafka.restart("kill")
        assert code_of(connect(kafka, "alice")) == 0
    with secured(data=tmp_path) as kafka:
        assert code_of(connect(kafka, "alice")) == 0
        connect(kafka, "admin").request(plain_request("DeleteAcls", {"filters": [ANY]}), 3)
    with secured(data=tmp_path) as kafka:
        assert code_of(connect(kafka, "alice")) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_confluent_kafka_manages_acls_and_meets_them(kafka: MockKafka) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}

    def login(user: str) -> dict[str, str]:
        return settings | {"sasl.username": user, "sasl.password": USERS[user]}

    admin = confluent_kafka.admin
    client = admin.AdminClient(login("admin"))
    wanted = admin.AclBinding(
        admin.ResourceType.TOPIC, "orders", admin.ResourcePatternType.LITERAL, ALICE, "*", admin.AclOperation.DESCRIBE,
        admin.AclPermissionType.ALLOW,
    )  # fmt: skip
    for future in client.create_acls([wanted]).values():
        future.result(10)
    everything = admin.AclBindingFilter(
        admin.ResourceType.ANY, None, admin.ResourcePatternType.ANY, None, None, admin.AclOperation.ANY,
        admin.AclPermissionType.ANY,
    )  # fmt: skip
    assert client.describe_acls(everything).result(10) == [wanted]
    told: list[Any] = []
    producer = confluent_kafka.Producer(login("alice"))
    producer.produce("orders", b"v", on_delivery=lambda error, _: told.append(error))
    producer.flush(10)
    assert [error.code() for error in told] == [confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED]


# ACLs that a broker gets at its start


def test_a_broker_starts_with_acls(tmp_path: Path) -> None:
    acls = ["allow User:alice WRITE TOPIC orders", "deny User:* READ TOPIC ord*"]
    for _ in range(2):
        with MockKafka(security="sasl_plaintext", users=USERS, acls=acls, topics=["orders", "other"], data=tmp_path) as kafka:
            alice = connect(kafka, "alice")
            responses = [only(alice.request(produce_request(topic, batch()), 9)) for topic in ("orders", "other")]
            assert [response.error_code for response in responses] == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            assert kafka.trace.events("authorization")[0].principal == ALICE
            assert len(kafka._call(lambda engine: list(engine.cluster.acls))) == 2


@pytest.mark.mock_kafka(security="sasl_plaintext", users=USERS, acls=["allow User:alice READ TOPIC orders"])
def test_the_marker_takes_acls(mock_kafka: MockKafka) -> None:
    assert mock_kafka._call(lambda engine: [str(acl) for acl in engine.cluster.acls]) == [
        "an ACL allows User:alice READ on TOPIC orders"
    ]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("allow User:alice read topic orders", "an ACL allows User:alice READ on TOPIC orders"),
        ("deny User:* ALL GROUP * from 10.0.0.1", "an ACL denies User:* ALL on GROUP * from 10.0.0.1"),
        ("allow User:CN=a b,O=c ALTER topic pay-*", "an ACL allows User:CN=a b,O=c ALTER on TOPIC pay-*"),
        ("allow User:a create_tokens user User:b", "an ACL allows User:a CREATE_TOKENS on USER User:b"),
    ],
)
def test_texts_of_acls(text: str, meaning: str) -> None:
    assert str(acl_of(text)) == meaning
    assert acl_of(text_of(acl_of(text))) == acl_of(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("alice may read", "is not allow|deny PRINCIPAL OPERATION TYPE NAME"), ("allow alice READ TOPIC x", "is not allow"),
        ("allow User:a RED TOPIC x", "did you mean 'READ'"), ("permit User:a READ TOPIC x", "permit is not one of DENY, ALLOW"),
        ("allow User:a READ TOPICS x", "did you mean 'TOPIC'"),
        ("allow User:a ALL CLUSTER x", "the only CLUSTER is kafka-cluster"),
        ("allow User:a ANY TOPIC x", "ANY is not one of ALL"),
    ],
)  # fmt: skip
def test_texts_that_mean_no_acl(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        MockKafka(acls=[text])


def test_one_text_is_not_a_list() -> None:
    with pytest.raises(ValueError, match=r"acls: give a value of the type .*Sequence\[str\], not '"):
        MockKafka(acls="allow User:a READ TOPIC x")


# Over HTTP


def test_acls_are_added_listed_and_removed_over_http(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    others = "allow User:bob READ GROUP team-* from 10.0.0.1"
    kafka = mock_kafka_factory(security="sasl_plaintext", users=USERS, acls=[others], topics=["orders"], control=True)
    control, alice = ControlClient(kafka.control_url), connect(kafka, "alice")
    acl = "allow User:alice WRITE TOPIC orders"

    def sent() -> int:
        code: int = only(alice.request(produce_request("orders", batch()), 9)).error_code
        return code

    assert sent() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for _ in range(2):  # the second time, the ACL exists already
        assert control.ask("POST", "/acls", {"acl": "allow User:alice write topic orders"}) == {"acls": [acl, others]}
    assert sent() == 0
    wrong = control.refused("POST", "/acls", {"acl": "alice may write"})
    assert (wrong["status"], wrong["field"], "is not allow|deny PRINCIPAL" in wrong["detail"]) == (422, "acl", True)
    unknown = control.refused("DELETE", f"/acls?acl={quote(acl.replace('orders', 'oders'))}")
    assert (unknown["status"], unknown["field"], f"did you mean {acl!r}" in unknown["detail"]) == (404, "acl", True)
    assert control.ask("DELETE", f"/acls?acl={quote(acl)}") == control.ask("GET", "/acls") == {"acls": [others]}
    assert sent() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    kafka.add_acl(acl)
    assert (kafka.acls(), sent()) == ([acl, others], 0)
    assert (control.ask("DELETE", "/acls"), kafka.acls()) == ({"acls": []}, [])


def test_serve_takes_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = "allow User:alice READ TOPIC orders", "deny User:* ALL GROUP * from 10.0.0.1"
    parsed = build_parser().parse_args(["serve", "--acl", first, "--acl", second])
    assert states.acls(broker_options(parsed).new_engine(0)) == [first, second]
    monkeypatch.setenv("WIREBROKER_ACL", f"{first}\n  {second}\n")
    assert broker_options(build_parser().parse_args(["serve"])).acls == [first, second]
    with pytest.raises(OptionError, match="acls: 'alice' is not allow|deny"):
        broker_options(build_parser().parse_args(["serve", "--acl", "alice"]))


def test_a_broker_without_authorizer_refuses_acls(mock_kafka: MockKafka) -> None:
    with pytest.raises(ValueError, match="this broker has no authorizer; start it with --acl"):
        mock_kafka.add_acl("allow User:alice READ TOPIC orders")
    mock_kafka.remove_acl()


# Faults


def test_an_acl_is_withdrawn_in_mid_flight() -> None:
    acl = "allow User:alice WRITE TOPIC orders"
    with MockKafka(security="sasl_plaintext", users=USERS, acls=[acl], topics=["orders"]) as kafka:
        rule = kafka.faults.add(faults.withdraw_acl(acl, principal=ALICE, api="Produce", nth=3))
        alice = connect(kafka, "alice")
        responses = [only(alice.request(produce_request("orders", batch()), 9)).error_code for _ in range(4)]
        assert responses == [0, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        rule.assert_fired(1)
    with pytest.raises(ValueError, match="withdraw_acl: 'alice' is not allow|deny"):
        faults.withdraw_acl("alice")


# The order of the checks, as on Kafka 4.4.0


def alteration(kind: int, name: str, *settings: tuple[str, str | None]) -> dict[str, Any]:
    configs = [{"name": setting, "value": value, "config_operation": 0} for setting, value in settings]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def test_what_the_receiving_broker_refuses_needs_no_right() -> None:
    """Kafka's ConfigAdminManager refuses these changes before the controller looks at the client's rights."""
    fine, number = ("retention.ms", "1"), ("log.retention.ms", "abc")
    cases: Any = [
        ([(2, "orders", fine), (2, "orders", fine)], [("orders", 42, "Each resource must appear at most once.")] * 2),
        ([(2, "orders", fine, fine)], [("orders", 42, "Error due to duplicate config keys")]),
        ([(2, "orders", ("retention.ms", None))], [("orders", 42, "Null value not supported for : retention.ms")]),
        ([(3, "x", fine), (2, "orders", fine)],
         [("orders", 29, "Topic authorization failed."), ("x", 42, "Unknown resource type 3")]),
        ([(4, "7", fine)], [("7", 31, "")]), ([(4, "1", number)], [("1", 31, "")]),
        ([(16, "sub", fine)], [("sub", 31, "Cluster authorization failed.")]),
    ]  # fmt: skip
    with secured(topics="orders") as kafka:
        for resources, expected in cases:
            body = {"resources": [alteration(*each) for each in resources], "validate_only": True}
            assert results(kafka, "alice", "IncrementalAlterConfigs", 1, body) == expected
            for each in [each for resource in body["resources"] for each in resource["configs"]]:
                del each["config_operation"]
            assert results(kafka, "alice", "AlterConfigs", 2, body) == expected
        loggers = [alteration(8, "1", ("root", "WRONG"))]
        assert results(kafka, "alice", "IncrementalAlterConfigs", 1, {"resources": loggers}) == [("1", 31, "")]
    with secured(profile="kafka-4.3") as kafka:  # checks the broker's settings first
        body = {"resources": [alteration(4, "7", fine), alteration(4, "1", fine)], "validate_only": True}
        assert results(kafka, "alice", "IncrementalAlterConfigs", 1, body) == [
            ("1", 31, "Cluster authorization failed."), ("7", 42, "Unexpected broker id, expected 1, but received 7"),
        ]  # fmt: skip


@pytest.mark.parametrize("api", ["AlterConfigs", "IncrementalAlterConfigs"])
def test_the_changes_of_a_resource_are_made_once_for_the_rights_and_the_alteration(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    class Counted(Alteration):
        def __init__(self, cluster: Cluster, node_id: int, kind: int, name: str, *rest: Any, **options: Any) -> None:
            made.append(name)
            super().__init__(cluster, node_id, kind, name, *rest, **options)

    monkeypatch.setattr("wirebroker.apis.configs.Alteration", Counted)
    fine = ("retention.ms", "1000")
    body: Any = {"resources": [alteration(2, "orders", fine), alteration(2, "bad", fine, fine), alteration(2, "hidden", fine)]}
    if api == "AlterConfigs":
        for each in [each for resource in body["resources"] for each in resource["configs"]]:
            del each["config_operation"]
    with secured(topics=["orders", "hidden"]) as kafka:
        allow(kafka, entry(Operation.ALTER_CONFIGS))
        version = 1 if api == "IncrementalAlterConfigs" else 2
        told = results(kafka, "alice", api, version, body)
        assert [each[:2] for each in told] == [("bad", 42), ("hidden", 29), ("orders", 0)]
        assert kafka.topics()["orders"].configs["retention.ms"] == "1000"
    assert sorted(made) == ["bad", "hidden", "orders"]


def test_an_unknown_type_of_resource_refuses_a_whole_describe_configs() -> None:
    with secured(topics="orders") as kafka:
        for unknown in (0, 3, 99, -1):
            named = [{"resource_type": kind, "resource_name": "orders"} for kind in (unknown, 2)]
            told = results(kafka, "alice", "DescribeConfigs", 4, {"resources": named})
            assert [code for _, code, _ in told] == [ErrorCode.INVALID_REQUEST] * 2


def test_what_a_request_names_twice_gets_one_result_whatever_the_rights() -> None:
    wanted = [{"name": name, "count": 5, "assignments": None} for name in ("hidden", "hidden", "orders")]
    with secured(topics=["orders", "hidden"]) as kafka:
        told = results(kafka, "alice", "CreatePartitions", 3, {"topics": wanted, "timeout_ms": 1000})
        assert told == [("hidden", 42, "Duplicate topic name."), ("orders", 29, "")]
        told = results(kafka, "alice", "DeleteGroups", 2, {"groups_names": ["g", "g", "h"]})
        assert [each[:2] for each in told] == [("g", 30), ("h", 30)]


@pytest.mark.parametrize("users", [None, []], ids=["null", "none"])
def test_a_client_that_may_not_describe_the_users_gets_a_response(users: list[Any] | None) -> None:
    """Kafka 4.4.0 does not respond if the list of users is null."""
    with secured() as kafka:
        response: Any = connect(kafka, "alice").request(plain_request("DescribeUserScramCredentials", {"users": users}), 0)
        assert (response.error_code, response.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


def test_an_overdue_request_is_refused_whole_unless_everything_is_forbidden() -> None:
    with secured(topics=["orders", "hidden"]) as kafka:
        allow(kafka, entry(Operation.ALTER), entry(Operation.CREATE, "mine"))
        new = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("mine", "other")]
        response: Any = connect(kafka, "alice").request(plain_request("CreateTopics", {"topics": new, "timeout_ms": 0}), 7)
        assert [each.error_code for each in response.topics] == [7, 7]
        for names, code in ((("hidden", "orders"), 7), (("hidden",), 29)):
            wanted = [{"name": name, "count": 5, "assignments": None} for name in names]
            told = results(kafka, "alice", "CreatePartitions", 3, {"topics": wanted, "timeout_ms": 0})
            assert told == [(name, code, "") for name in names]
