"""Texts that no record and no response can contain. They are put into every text field of every request that changes state.

After any response the broker continues to work: every API that lists or describes still responds. A reset, and a start with the
same data, succeed. If Kafka 4.3.1 also continues after a request, test_unwritable_responses.py expects Kafka's error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from controlkit import ControlClient
from inprocess import InProcess, Link
from kafkawire.errors import EncodeError
from kafkawire.frames import decode_response
from kafkawire.registry import KEYS, request_class, versions
from requesting import Plain, plain
from state_changes import (
    INVALID,
    LONGEST,
    SETTINGS,
    STREAMS,
    Place,
    State,
    declared,
    frame,
    metadata_requests,
    prepare,
    replaced,
    requests,
    texts,
)
from wirebroker.apis import SERVED
from wirebroker.client.wire import ConnectionClosed, NoResponse
from wirebroker.core.profile import DEFAULT_PROFILE
from wirebroker.engine.soft_reset import soft_reset
from wirebroker.net.listener import parse_address
from wirebroker.requests.errors import READING
from wirebroker.security.principals import Principal
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.storage import changes
from wirebroker.testing.learned_file import FORMAT, FileError, read
from wirebroker.testing.options import OptionError
from wirebroker.trace.recorder import errors_in
from wirekit import client

CHANGING = frozenset(SERVED) - READING
ANY_ACL: Plain = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
DESCRIBE = {
    "classic": "DescribeGroups", "consumer": "ConsumerGroupDescribe", "share": "ShareGroupDescribe",
    "streams": "StreamsGroupDescribe",
}  # fmt: skip
"""The API that describes groups of a kind."""


WRITTEN = {
    "CreateTopics", "CreatePartitions", "DeleteTopics", "AlterConfigs", "IncrementalAlterConfigs", "CreateAcls", "DeleteAcls",
    "AlterClientQuotas", "AlterUserScramCredentials", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken",
}  # fmt: skip
"""The APIs of those requests in `metadata_requests` that change state which the broker of these tests can describe."""


class Client:
    """A client of a broker in process. It opens another connection if it gets no response. If the broker does not serve the
    version of a request, the client uses the nearest version."""

    def __init__(self, broker: InProcess) -> None:
        self.broker = broker
        self._link: Link | None = None

    def link(self) -> Link:
        """Returns the connection of a user who is logged in."""
        if self._link is None:
            self._link = self.broker.link()
            session = self._link.connection.session
            session.principal, session.protocol = Principal("User", "admin"), SecurityProtocol.SASL_PLAINTEXT
        return self._link

    def served(self, api: str) -> range:
        """Returns the versions that the broker serves."""
        oldest, newest = self.link().connection.versions.get(KEYS[api], (0, -1))
        return range(oldest, newest + 1)

    def ask(self, api: str, version: int, *, client_id: str = "test", **fields: Any) -> Any:
        """Returns the response to a request of plain data. Returns None if the broker does not serve the API, if it closes the
        connection, or if the group rebalances.
        """
        link, served = self.link(), self.served(api)
        if not served:
            return None
        nearest = min(max(version, served[0]), served[-1])
        try:
            link.send_bytes(frame(api, nearest, fields, client_id))
            return decode_response(link.frame(), KEYS[api], nearest)[1]
        except (ConnectionClosed, NoResponse):
            self._link = None
            return None

    def shown(self) -> dict[str, Any]:
        """Returns the responses of the APIs that list or describe. Leaves out sizes."""
        found = {api: self.ask(api, versions(KEYS[api])[1], **fields) for api, fields in self._listing()}
        for each in found["DescribeLogDirs"].results:
            each.usable_bytes = 0
            for partition in (partition for topic in each.topics for partition in topic.partitions):
                partition.partition_size = 0
        return found

    def check(self, when: str, *, all_versions: bool = False) -> None:
        """Checks that all APIs that list or describe respond, and that no response has UNKNOWN_SERVER_ERROR."""
        for api, fields in self._listing():
            for version in self.served(api)[0 if all_versions else -1 :]:
                if api == "OffsetFetch" and version < 8:
                    continue  # these versions ask for one group
                response = self.ask(api, version, **fields | ({"topics": []} if api == "Metadata" and not version else {}))
                assert response is not None, (when, api, version)
                assert "UNKNOWN_SERVER_ERROR" not in errors_in(response), (when, api, version)

    def _listing(self) -> Iterator[tuple[str, Plain]]:
        yield "ListGroups", {}
        groups: dict[str, list[str]] = {kind: [] for kind in DESCRIBE}
        for group in self.ask("ListGroups", 5).groups:
            groups[group.group_type or "classic"].append(group.group_id)
        for kind, api in DESCRIBE.items():
            yield api, {"groups" if kind == "classic" else "group_ids": groups[kind]}
        yield "OffsetFetch", {"groups": [{"group_id": each, "topics": None} for held in groups.values() for each in held]}
        yield "DescribeShareGroupOffsets", {"groups": [{"group_id": each, "topics": None} for each in groups["share"]]}
        yield "ListTransactions", {}
        held = self.ask("ListTransactions", 0)
        ids = [each.transactional_id for each in held.transaction_states] if held is not None else []
        yield "DescribeTransactions", {"transactional_ids": ids}
        yield "Metadata", {"topics": None}
        yield "DescribeTopicPartitions", {}
        yield "DescribeAcls", ANY_ACL
        yield "DescribeClientQuotas", {}
        yield "DescribeUserScramCredentials", {"users": None}
        yield "DescribeDelegationToken", {"owners": None}
        yield "ListConfigResources", {}
        found = self.ask("ListConfigResources", 1)
        named = [(each.resource_type, each.resource_name) for each in found.config_resources] if found is not None else []
        named = [(4, ""), *named]
        resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in named]
        yield "DescribeConfigs", {"resources": resources}
        yield "ListPartitionReassignments", {"timeout_ms": 1000, "topics": None}
        yield "DescribeLogDirs", {"topics": None}
        yield "DescribeCluster", {}


class Case(NamedTuple):
    """A field of a request that has a text or bytes. The place () means the client id. Each case that joins a group has its own
    group.
    """

    api: str
    version: int
    fields: Plain
    place: Place
    kind: str

    def changed(self, text: str) -> Plain:
        """Returns the fields of the request, with `text` in the case's field."""
        value = text.encode() if self.kind == "bytes" else text
        return replaced(self.fields, self.place, value) if self.place else self.fields | {"client_id": text}


def cases(known: State) -> Iterator[Case]:
    """Yields each field of each request that changes state."""
    number = count()
    for api, version, fields in requests(known):
        joins = fields.get("member_id") == "" or fields.get("member_epoch") == 0
        for place, kind in [*texts(request_class(KEYS[api]), version, fields), ((), "string")]:
            own = {"group_id": f"{fields['group_id']}-{next(number)}"} if joins else {}
            yield Case(api, version, fields | own, place, kind)


def broker(folder: Path | None, profile: str = DEFAULT_PROFILE) -> InProcess:
    settings = SETTINGS | (STREAMS if profile == DEFAULT_PROFILE else {})
    return InProcess(configs=settings, data=folder, profile=profile)


@pytest.fixture(params=["memory", "disk"])
def folder(request: Any, tmp_path: Path) -> Path | None:
    return tmp_path / "data" if request.param == "disk" else None


def test_every_text_field_of_every_request_that_changes_state_is_tried() -> None:
    tried: dict[str, set[tuple[str, ...]]] = {}
    for case in cases(State(bytes(range(16)), "member", 1, 1, 0, b"hmac")):
        tried.setdefault(case.api, set()).add(tuple(step for step in case.place if isinstance(step, str)))
    for api in CHANGING:
        oldest, newest = versions(KEYS[api])
        every = range(oldest, max(newest, 0) + 1)
        wanted = {names for version in every for names in declared(request_class(KEYS[api]), version)}
        assert wanted <= tried.get(api, set()), api


@pytest.mark.parametrize("text", [INVALID, LONGEST], ids=["invalid", "longest"])
def test_no_text_makes_the_broker_refuse_other_requests(folder: Path | None, text: str) -> None:
    made = broker(folder)
    client = Client(made)
    send_all(client, text)
    client.check("all", all_versions=True)
    soft_reset(made.engine, made.clock.now())
    client.check("a reset")
    made.restart("kill")
    client = Client(made)
    client.check("a restart")
    if folder is not None:
        made.engine.store.close(made.clock.now())
        again = broker(folder)
        Client(again).check("a start with the same data")
        again.engine.store.close(again.clock.now())


@pytest.mark.parametrize("profile", ["kafka-3.9", "kafka-2.3"])
def test_no_text_makes_an_older_release_refuse_other_requests(profile: str) -> None:
    client = Client(broker(None, profile))
    send_all(client, INVALID)
    client.check("all", all_versions=True)


def send_all(client: Client, text: str) -> None:
    """For each case, sends two requests: first with `text` in the case's field, and then the unchanged request. Checks the
    broker after each API."""
    for api, alike in groupby(cases(prepare(client.ask)), lambda case: case.api):
        for case in alike:
            client.ask(api, case.version, **case.changed(text))
            client.ask(api, case.version, **case.fields)
        client.check(api)


@pytest.mark.parametrize("raised", [OSError(28, "the disk is full"), EncodeError("too long"), RuntimeError("a mistake")])
def test_whatever_a_write_raises_the_change_is_undone(
    raised: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise raised

    made = broker(tmp_path / "data")
    client = Client(made)
    undone: set[str] = set()
    shown: set[str] = set()
    for api, version, fields in metadata_requests(prepare(client.ask)):
        before = client.shown()
        with monkeypatch.context() as patched, suppress(RuntimeError):
            patched.setattr(changes, "difference", fail)
            client.ask(api, version, **fields)
        assert client.shown() == before, (api, fields)
        client.ask(api, version, **fields)
        changed = {name for name, response in client.shown().items() if response != before[name]}
        undone |= {api} if changed else set()
        shown |= changed
    assert undone == WRITTEN
    assert shown == {
        "DescribeAcls", "DescribeClientQuotas", "DescribeConfigs", "DescribeDelegationToken", "DescribeLogDirs",
        "DescribeTopicPartitions", "DescribeUserScramCredentials", "ListConfigResources", "Metadata",
    }  # fmt: skip


HALF = "\ud800"
"""Half of a surrogate pair. UTF-8 cannot encode it, but JSON and Python's texts can contain it."""


@pytest.mark.parametrize("text", [HALF, "x" * 40_000], ids=["half a pair", "long"])
def test_a_text_that_does_not_come_through_the_wire_is_refused_too(text: str, mock_kafka_factory: Any, tmp_path: Path) -> None:
    for option, value in {
        "users": {text: "secret"}, "acls": [f"allow User:{text} READ TOPIC x"], "quotas": [f"user={text},producer_byte_rate=1"],
        "configs": {"super.users": text}, "topics": {"orders": {"configs": {"retention.ms": text}}},
    }.items():  # fmt: skip
        with pytest.raises(OptionError, match=f"^{option}: "):
            InProcess(**{option: value})
    with pytest.raises(ValueError, match="not a host"):
        parse_address(f"{text}:9092")
    acls = ["allow User:ANONYMOUS ALL CLUSTER kafka-cluster"]
    kafka = mock_kafka_factory(telemetry=True, acls=acls, control=True, data=tmp_path / "data")
    for refused in (
        lambda: kafka.quotas.set(user=text, producer_byte_rate=1), lambda: kafka.telemetry.subscribe(text),
        lambda: kafka.create_topic("new", configs={"my.setting": text}),
        lambda: kafka.add_acl(f"allow User:{text} READ TOPIC x"),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            refused()
    control = ControlClient(kafka.control_url)
    body = '{"user": "%s", "producer_byte_rate": 1}'
    escaped = body % text.encode("ascii", "backslashreplace").decode()
    for sent in ((body % text).encode(errors="surrogatepass"), escaped.encode(), escaped.encode("utf-16-le")):
        assert control.raw("POST", "/quotas", sent).status in (400, 422)
    (quota,) = control.ask("POST", "/quotas", {"user": "alice", "producer_byte_rate": 1})["quotas"]
    assert quota["user"] == "alice"
    assert client(kafka).request(plain("ListConfigResources"), 1).error_code == 0
    control.ask("POST", "/reset", {"soft": True})


def test_a_learned_file_with_a_text_that_no_response_can_hold_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "learned.toml"
    file.write_text(f'format = {FORMAT}\n[[groups]]\nname = "{"x" * 40_000}"\n')
    with pytest.raises(FileError, match="longer than 32767 bytes"):
        read(file)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes any bytes as a name")
def test_a_data_directory_whose_name_is_not_utf_8_is_described(tmp_path: Path) -> None:
    made = broker(tmp_path / os.fsdecode(b"caf\xe9"))
    (found,) = Client(made).ask("DescribeLogDirs", 4, topics=None).results
    assert found.log_dir == f"{tmp_path}/caf\ufffd"
    made.engine.store.close(made.clock.now())
