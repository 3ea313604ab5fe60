"""`wirebroker learn` reads a cluster. A broker with `--like` then resembles this cluster. In some tests, the user has no right
to read some parts of the cluster."""

from __future__ import annotations

import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import kafka as kafka_python
import pytest

from actors import ClassicMember, Member
from alike import answers, differences
from kafkawire.errors import ErrorCode
from kafkawire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.registry import api_name
from requesting import plain, produce_request
from responses import only
from wirebroker import MockKafka, faults
from wirebroker.client.brokers import Brokers
from wirebroker.client.settings import Access
from wirebroker.client.wire import Connection, address_of
from wirebroker.commands.cli import build_parser, main
from wirebroker.commands.serve import broker_options
from wirebroker.testing.learned_file import (
    FORMAT,
    Acl,
    Broker,
    FileError,
    Group,
    Learned,
    Quota,
    Topic,
    Unread,
    User,
    dump,
    loads,
    read,
)
from wirebroker.testing.options import AUTHORIZER, BrokerOptions, OptionError
from wirebroker_tools.learning.sections import DOWN
from wirekit import batch, client

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
SUPER_USERS = {"super.users": "User:admin"}
"""A broker setting whose value `learn` cannot read, because DescribeConfigs does not return it."""
SECURED: dict[str, Any] = {
    "security": "sasl_plaintext",
    "users": USERS,
    "brokers": 3,
    "topics": {"orders": {"partitions": 4, "replication_factor": 2, "configs": {"min.insync.replicas": 2}}, "payments-eu": 1},
    "configs": SUPER_USERS | {"broker.rack": "a,b,a", "message.max.bytes": 4000, "group.initial.rebalance.delay.ms": 0},
    "acls": [
        "allow User:alice DESCRIBE TOPIC orders", "allow User:alice WRITE TOPIC payments-*", "allow User:alice READ GROUP team",
        "deny User:bob ALL TOPIC * from 10.1.2.3",
    ],
    "quotas": ["user=alice,client-id=app,producer_byte_rate=1000", "client-id=<default>,request_percentage=50"],
}  # fmt: skip


@pytest.fixture
def secured() -> Iterator[MockKafka]:
    settings = dict(SECURED)
    quotas = settings.pop("quotas")
    with MockKafka(**settings) as kafka:
        kafka.quotas.set(user="alice", client_id="app", producer_byte_rate=1000)
        kafka.quotas.set(client_id="<default>", request_percentage=50)
        assert len(kafka.quotas.all()) == len(quotas)
        yield kafka


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "learned.toml"


def properties(folder: Path, kafka: MockKafka, user: str = "") -> Path:
    """Writes a file with the properties that a Java client needs for this broker. Returns the file's path."""
    path = folder / f"{user or 'client'}.properties"
    settings = kafka.client_settings("java", user or None)
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def learn(kafka: MockKafka, out: Path, *flags: str, user: str = "") -> Learned:
    """Runs `learn` on a broker. Returns the content of the file that it writes."""
    if kafka._protocol.sasl:
        flags = (*flags, "--command-config", str(properties(out.parent, kafka, user)))
    assert main(["learn", "--bootstrap", kafka.bootstrap_servers, "--out", str(out), *flags]) == 0
    return read(out)


def login(user: str, password: str | None = None) -> Access:
    return Access("SASL_PLAINTEXT", "SCRAM-SHA-512", user, password or user)


# A cluster and a broker that resembles it


def test_a_plain_cluster_and_the_one_like_it_agree(file: Path) -> None:
    topics = {"orders": {"partitions": 5, "replication_factor": 2}, "a": 1}
    with MockKafka(brokers=3, topics=topics, configs={"message.max.bytes": 3000}) as kafka:
        with closing(client(kafka)) as wire:
            placed = [{"partition_index": index, "broker_ids": nodes} for index, nodes in enumerate([[3, 1], [3, 2], [1, 3]])]
            topic = {"name": "placed", "num_partitions": -1, "replication_factor": -1, "assignments": placed, "configs": []}
            assert wire.request(plain("CreateTopics", topics=[topic]), 5).topics[0].error_code == 0
            changes = [
                {"resource_type": 4, "resource_name": name, "configs": [{"name": key, "config_operation": 0, "value": value}]}
                for name, key, value in (("", "message.max.bytes", "2000"), ("1", "max.connections", "77"))
            ]
            response = wire.request(plain("IncrementalAlterConfigs", resources=changes, validate_only=False), 1)
            assert {each.error_code for each in response.responses} == {0}
        learn(kafka, file)
        with MockKafka(like=file) as served:
            assert list(differences(answers(kafka.bootstrap_servers), answers(served.bootstrap_servers))) == []


def test_a_secured_cluster_and_the_one_like_it_agree(secured: MockKafka, file: Path) -> None:
    learned = learn(secured, file, user="admin")
    assert learned.unread == []
    assert (len(learned.acls), len(learned.quotas), [each.rack for each in learned.brokers]) == (4, 2, ["a", "b", "a"])
    original = answers(secured.bootstrap_servers, login("admin", USERS["admin"]))
    with MockKafka(like=file, security="sasl_plaintext", users={"admin": "mine"}, configs=SUPER_USERS) as served:
        found = list(differences(original, answers(served.bootstrap_servers, login("admin", "mine"))))
    assert found == []


def test_no_secret_is_in_the_file_and_each_one_is_named(file: Path) -> None:
    login_module = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_eve="hidden";'
    configs = {"listener.name.inner.plain.sasl.jaas.config": login_module, "ssl.key.password": "hidden", **SUPER_USERS}
    with MockKafka(configs=configs, users={"alice": "hidden"}) as kafka:
        learned = learn(kafka, file)
    assert "hidden" not in file.read_text()
    assert {"listener.name.inner.plain.sasl.jaas.config", "ssl.key.password", "super.users"} <= set(learned.left_out)
    assert learned.users == [User(name="alice", mechanisms={"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096})]


@pytest.mark.parametrize("given", [{}, {"allow.everyone.if.no.acl.found": "false"}])
def test_a_cluster_that_is_open_without_acls_stays_open(
    given: dict[str, str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DescribeConfigs of Kafka 4.3.1 names this setting and hides its value."""
    configs = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with MockKafka(topics=["orders"], configs=configs) as kafka:
        learned = learn(kafka, file)
    assert "allow.everyone.if.no.acl.found" in learned.left_out
    assert "assumed     allow.everyone.if.no.acl.found=true: it is set, and Kafka hides its value\n" in capsys.readouterr().out
    with warnings.catch_warnings(record=True) as told, MockKafka(like=file, configs=given) as served:
        request = plain("Metadata", topics=[{"name": "orders"}], allow_auto_topic_creation=False)
        with closing(Connection(address_of(served.bootstrap_servers), 10)) as connection:
            assert [each.error_code for each in connection.request(request, 4).topics] == ([29] if given else [0])
    assert len([each for each in told if "assumes `true`" in str(each.message)]) == (not given)


def test_denials_and_limits_are_those_of_the_cluster(secured: MockKafka, file: Path) -> None:
    learn(secured, file, user="admin")
    with MockKafka(like=file, security="sasl_plaintext") as served:
        for kafka, access in ((secured, login("alice", USERS["alice"])), (served, login("alice"))):
            assert _codes(kafka, access) == {
                "orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "payments-eu": ErrorCode.NONE,
                "too large": ErrorCode.MESSAGE_TOO_LARGE,
            }


def _codes(kafka: MockKafka, access: Access) -> dict[str, int]:
    """As alice, sends a normal record and a too large record to each of two topics. Returns the error codes."""
    found: dict[str, int] = {}
    with closing(Brokers(access)) as brokers:
        for topic in ("orders", "payments-eu"):
            leader = kafka.partition(topic, 0).leader
            host, port = kafka.brokers()[leader].listeners["SASL_PLAINTEXT"].rsplit(":", 1)
            where = f"{host}:{port}"
            for name, raw in ((topic, batch()), ("too large", batch(tag="v" * 5000))):
                response = brokers.request(produce_request(topic, raw), 9, where)
                found[name] = only(response).error_code
    return found


def test_groups_have_their_types_and_protocols(file: Path) -> None:
    with MockKafka(topics="orders") as kafka:
        kafka.warm()
        classic = ClassicMember(kafka, group="classic")
        classic.join(protocols="sticky")
        assert classic.sync({}) == (0, b"")
        Member(kafka, "m", group="modern").send(0, subscribed_topic_names=["orders"], rebalance_timeout_ms=5000, owned={})
        learned = learn(kafka, file)
    assert [(each.name, each.type, each.protocol_type, each.protocol) for each in learned.groups] == [
        ("classic", "classic", "consumer", "sticky"), ("modern", "consumer", "consumer", "uniform")
    ]  # fmt: skip


def test_versions_are_those_of_the_cluster(file: Path) -> None:
    with MockKafka(max_versions={"Fetch": 12, "Metadata": 9}, features={"transaction.version": 1}) as kafka:
        learned = learn(kafka, file)
        assert (learned.exact, learned.api_versions["Fetch"]) == (False, (4, 12))
        with MockKafka(like=file) as served:
            assert list(differences(answers(kafka.bootstrap_servers), answers(served.bootstrap_servers))) == []


def test_a_broker_that_has_given_up_old_versions_announces_none_of_them(file: Path) -> None:
    file.write_text(GOOD + "[api_versions]\nApiVersions = [0, 4]\nProduce = [7, 11]\nMetadata = [4, 9]\n")
    with MockKafka(like=file) as served:
        told = answers_of_versions(served)
    assert told == {"ApiVersions": (0, 4), "Produce": (7, 11), "Metadata": (4, 9)}


def answers_of_versions(kafka: MockKafka) -> dict[str, tuple[int, int]]:
    with closing(client(kafka)) as wire:
        response = wire.request(plain("ApiVersions", client_software_name="a", client_software_version="1"), 4)
    return {api_name(each.api_key): (each.min_version, each.max_version) for each in response.api_keys}


# Parts of the cluster that the user may not read


def test_it_says_what_it_was_not_allowed_to_read(secured: MockKafka, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learned = learn(secured, file, user="alice")
    assert [each.name for each in learned.topics] == ["orders", "payments-eu"]
    assert {(each.section, each.error, each.needs) for each in learned.unread} == {
        ("settings of brokers", "CLUSTER_AUTHORIZATION_FAILED", "DESCRIBE_CONFIGS on CLUSTER kafka-cluster"),
        ("settings of topics (2 of 2)", "TOPIC_AUTHORIZATION_FAILED", "DESCRIBE_CONFIGS on TOPIC"),
        ("groups", "only groups that this user may describe are known", "DESCRIBE on CLUSTER kafka-cluster"),
        ("topics", "only topics that this user may describe are known", "DESCRIBE on TOPIC *"),
        ("quotas", "CLUSTER_AUTHORIZATION_FAILED", "DESCRIBE_CONFIGS on CLUSTER kafka-cluster"),
        ("acls", "CLUSTER_AUTHORIZATION_FAILED", "DESCRIBE on CLUSTER kafka-cluster"),
        ("users", "CLUSTER_AUTHORIZATION_FAILED", "DESCRIBE on CLUSTER kafka-cluster"),
    }
    assert "acls: CLUSTER_AUTHORIZATION_FAILED; needs DESCRIBE on CLUSTER kafka-cluster" in capsys.readouterr().out
    with pytest.warns(UserWarning, match="could not be read") as warned:
        MockKafka(like=file)
    said = [str(each.message) for each in warned]
    assert "these sections could not be read from the learned cluster: acls, groups, quotas" in said[0]
    assert said[1] == f"{file}: the ACLs could not be read, so this broker checks no ACLs, and clients may do everything"
    assert len(BrokerOptions(like=file, acls=["allow User:alice READ TOPIC orders"]).notes) == 1


def test_an_api_that_the_release_lacks_is_named(file: Path) -> None:
    with MockKafka(profile="kafka-2.3") as kafka:
        learned = learn(kafka, file)
    assert ("quotas", "the broker does not offer DescribeClientQuotas") in [
        (each.section, each.error) for each in learned.unread
    ]


# Names


def test_hashed_names_keep_their_relations(secured: MockKafka, file: Path) -> None:
    plainly = learn(secured, file, user="admin")
    learned = learn(secured, file, "--anonymous", user="admin")
    text = file.read_text()
    assert not [
        name for name in ("orders", "payments", "alice", "bob", "admin", "app", "team", "10.1.2.3", '"a"') if name in text
    ]
    new = {old.name: made.name for old, made in zip(plainly.topics, learned.topics, strict=True)}
    (prefix,) = (each.name for each in learned.acls if each.pattern == "PREFIXED")
    assert new["orders"] in {each.name for each in learned.acls}
    assert [name for name, hashed in new.items() if hashed.startswith(prefix)] == ["payments-eu"]
    principals = {each.principal.removeprefix("User:") for each in learned.acls}
    assert principals < {each.name for each in learned.users}
    assert principals.issuperset(each.entity["user"] for each in learned.quotas if "user" in each.entity)
    again = learn(secured, file, "--anonymous", user="admin")
    assert {each.name for each in again.topics}.isdisjoint(new.values())
    with MockKafka(like=file) as served:
        assert len(served.topics()) == 2


# The file


def test_every_text_comes_back_from_the_file() -> None:
    odd = 'a"b\\c\n\t\x00\x7f\u202e\U0001f600 = [x] #'
    learned = Learned(
        format=FORMAT, release="4.3", exact=False, settings={odd: odd}, altered={"a.b": ""}, left_out=[odd],
        brokers=[Broker(node_id=7, rack=odd, settings={odd: "1"}, altered={odd: "2"}), Broker(node_id=9)],
        topics=[Topic(name=odd, replicas=[[7, 9], [9]], settings={odd: odd})],
        groups=[Group(name=odd, type="share", protocol=odd)], quotas=[Quota(entity={"user": odd}, limits={odd: 1e300})],
        acls=[Acl(permission="ALLOW", principal=odd, operation="READ", resource="TOPIC", name=odd)],
        users=[User(name=odd, mechanisms={odd: 5000})], unread=[Unread(section=odd, error=odd)],
        api_versions={"Fetch": (4, 12)}, features={"x": (0, 2, 1)},
    )  # fmt: skip
    assert loads(dump(learned), "f") == learned


GOOD = """
format = 1
release = "4.4"
[[broker]]
node_id = 1
"""
TOPIC = f'{GOOD}[[topic]]\nname = "t"\nreplicas = [[1]]\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("format = ", "this is not TOML"),
        ("", "format is missing, expected 1"),
        ("format = 2", "format is 2, expected 1"),
        ("format = 1", "a cluster needs brokers with different ids from 0 to 2147483647; the file has no brokers"),
        (GOOD + "[[topic]]\nname = 1\nreplicas = []", "topic 1, name: Expected str, got int"),
        (GOOD + "colour = 3", "broker 1: unknown: colour"),
        (GOOD + '[settings]\n"a.b" = "1"\n"message.max.bytes" = 2', "settings, message.max.bytes: Expected str, got int"),
        (TOPIC + 'settings = { "a.b" = "1", "retention.ms" = 2 }', "topic 1, settings, retention.ms: Expected str, got int"),
        (GOOD + '[api_versions]\nFetch = [1, 2]\nProduce = [1, "x"]', "api_versions, Produce 2: Expected int, got str"),
        (GOOD + "[features]\nx = [1, 2, 1]\ny = [1]", "features, y: Expected array of length 3"),
        (GOOD + '[[topic]]\nname = "t"\nreplicas = [[2]]', "t-0 has a replica on broker 2, which does not exist"),
        (GOOD + '[[topic]]\nname = "t/"\nreplicas = [[1]]', "the topic t/ is refused: "),
        (TOPIC + 'settings = { "retention.ms" = "x" }', "the topic t is refused: Invalid value"),
        (GOOD + '[settings]\n"message.max.bytes" = "many"', "Invalid value many for configuration message.max.bytes"),
        (GOOD + '[[user]]\nname = "u"\nmechanisms = { GSSAPI = 5000 }', "the user u has the mechanism GSSAPI"),
        (GOOD + '[[user]]\nname = "u"\nmechanisms = { SCRAM-SHA-256 = 1000000000 }', "1000000000 iterations, expected 4096"),
        (
            GOOD + '[[acl]]\npermission = "MAYBE"\nprincipal = "User:a"\noperation = "READ"\nresource = "TOPIC"\nname = "t"',
            "an ACL of User:a has 'MAYBE', which Kafka does not have",
        ),
        (
            GOOD + '[[acl]]\npermission = "ALLOW"\nprincipal = "a"\noperation = "READ"\nresource = "TOPIC"\nname = "t"',
            "an ACL has the principal 'a', expected a principal such as User:alice",
        ),
        (GOOD + "[api_versions]\nProduce = [0, 11]", "api_versions has no ApiVersions, which clients request first"),
        (GOOD + "[api_versions]\nApiVersions = [0, 4]\nProduce = [11, 0]", "Produce has the versions 11 to 0"),
        (GOOD + '[[quota]]\nentity = { planet = "x" }\nlimits = { x = 1.0 }', "Unhandled client quota entity type: planet"),
        (GOOD + '[[quota]]\nentity = { user = "x" }\nlimits = { x = nan }', "has a limit that is not a number"),
        ('format = 1\nrelease = "9.9"\n[[broker]]\nnode_id = 1', "there is no profile kafka-9.9; give another profile"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    text: str, problem: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert main(["serve", "--port", "0", "--like", str(file)]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith(f"wirebroker serve: --like: {file}: ")
    assert problem in said


def test_a_missing_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--like", "nowhere.toml"]) == 2
    assert "--like: nowhere.toml: No such file or directory" in capsys.readouterr().err
    with pytest.raises(FileError, match="No such file"):
        read("nowhere.toml")


# Beside the file


def test_what_is_given_beside_the_file_wins(secured: MockKafka, file: Path) -> None:
    learn(secured, file, user="admin")
    configs = {"message.max.bytes": 9000, "super.users": "User:ANONYMOUS"}
    with MockKafka(like=file, brokers=1, topics={"orders": 9, "more": 1}, configs=configs) as served:
        assert list(served.brokers()) == [1]
        assert {name: len(topic.partitions) for name, topic in served.topics().items()} == {
            "orders": 9,
            "more": 1,
            "payments-eu": 1,
        }
        assert served._call(lambda engine: engine.configs.integer("message.max.bytes")) == 9000
    with MockKafka(like=file, brokers=4) as served:
        assert list(served.brokers()) == [1, 2, 3, 4]


def test_settings_that_nobody_gave_are_kafkas_and_given_ones_win_over_alterations(file: Path) -> None:
    file.write_text(GOOD + '[altered]\n"message.max.bytes" = "4000"\n')
    configs = BrokerOptions(like=file, configs={"message.max.bytes": 9000}).new_engine(0).configs
    assert [configs.integer(name) for name in ("message.max.bytes", "group.initial.rebalance.delay.ms")] == [9000, 3000]


def test_users_log_in_as_the_file_says(file: Path) -> None:
    file.write_text(
        GOOD + '[[user]]\nname = "alice"\nmechanisms = { SCRAM-SHA-512 = 5000 }\n'
        '[[acl]]\npermission = "ALLOW"\nprincipal = "User:bob"\noperation = "ALL"\nresource = "CLUSTER"\n'
        'name = "kafka-cluster"\n'
    )
    with MockKafka(like=file, security="sasl_plaintext", users={"carol": "c"}) as kafka:
        bob = Access("SASL_PLAINTEXT", "PLAIN", "bob", "bob")
        assert answers(kafka.bootstrap_servers, bob)["DescribeUserScramCredentials"] == {
            "alice": [(2, 5000)], "carol": [(1, 4096), (2, 4096)]
        }  # fmt: skip
        given = {name: kafka.client_settings("kafka-python", name) for name in ("alice", "bob", "carol")}
        assert [each["sasl_mechanism"] for each in given.values()] == ["SCRAM-SHA-512", "PLAIN", "SCRAM-SHA-256"]
        for each in given.values():
            kafka_python.KafkaAdminClient(**each).close()


@pytest.mark.parametrize("enabled", ["PLAIN", "PLAIN,SCRAM-SHA-512"])
def test_client_settings_name_an_enabled_mechanism(enabled: str) -> None:
    with MockKafka(security="sasl_plaintext", users={"a": "b"}, configs={"sasl.enabled.mechanisms": enabled}) as kafka:
        settings = kafka.client_settings("kafka-python")
        assert settings["sasl_mechanism"] == enabled.split(",")[-1]
        kafka_python.KafkaAdminClient(**settings).close()


def test_what_serve_drops_it_names(file: Path) -> None:
    file.write_text(GOOD + '[settings]\n"zookeeper.sharks" = "3"\n"sasl.enabled.mechanisms" = "GSSAPI,PLAIN"')
    options = BrokerOptions(like=file)
    assert options.notes == [f"{file}: wirebroker does not have the mechanism GSSAPI, zookeeper.sharks"]
    assert options.settings["sasl.enabled.mechanisms"] == "PLAIN"


def test_dropped_settings_of_topics_groups_and_alterations_are_named(file: Path) -> None:
    group = '[[group]]\nname = "g"\ntype = "consumer"\nsettings = { "g.x" = "1", "consumer.session.timeout.ms" = "46000" }\n'
    topic = TOPIC + 'settings = { "vendor.topic.x" = "1", "retention.ms" = "5" }\n'
    file.write_text(topic + group + '[altered]\n"vendor.x" = "1"\n')
    options = BrokerOptions(like=file)
    assert options.notes == [f"{file}: wirebroker does not have g.x of groups, vendor.topic.x of topics, vendor.x"]
    engine = options.new_engine(0)
    assert engine.cluster.topics["t"].configs.overrides == {"retention.ms": "5"}
    assert engine.configs.groups == {"g": {"consumer.session.timeout.ms": "46000"}}


def test_unknown_apis_and_features_and_a_missing_release_are_named(file: Path) -> None:
    file.write_text(
        GOOD.replace('release = "4.4"', "")
        + "[api_versions]\nApiVersions = [0, 4]\nProdcue = [0, 11]\n[features]\nx = [0, 2, 1]\n"
    )
    missing = f"{file}: wirebroker does not have the API Prodcue, the feature x"
    assumed = f"{file}: the file names no release, so this broker responds as kafka-4.4"
    assert BrokerOptions(like=file).notes == [assumed, missing]
    assert BrokerOptions(like=file, profile="kafka-4.3").notes == [missing]


def test_messages_escape_what_cannot_be_seen(file: Path) -> None:
    file.write_text('unread = [{ section = "\\u001b[31mX\\u202e", error = "no" }]' + GOOD)
    with pytest.warns(UserWarning, match="could not be read") as warned:
        MockKafka(like=file)
    assert str(warned[0].message).endswith("learned cluster: \\u001b[31mX\\u202e")
    with pytest.raises(OptionError) as refused:
        MockKafka(topics="a\u202e\0b:x")
    assert str(refused.value).isprintable()


def test_brokers_show_settings_in_which_they_differ(file: Path) -> None:
    file.write_text(
        "format = 1\n"
        '[[broker]]\nnode_id = 1\nsettings = { "num.io.threads" = "3", "message.max.bytes" = "4000" }\n'
        'altered = { "max.connections" = "77" }\n'
        '[[broker]]\nnode_id = 2\nsettings = { "num.io.threads" = "5" }\n'
    )
    with MockKafka(like=file) as kafka:
        told = answers(kafka.bootstrap_servers)["DescribeConfigs"]
        shown = [told[f"BROKER {node}: {name}"][:2] for name in ("num.io.threads", "message.max.bytes") for node in (1, 2)]
        assert shown == [("3", 4), ("5", 4), ("4000", 4), ("1048588", 5)]
        assert [told[f"BROKER {node}: max.connections"][:2] for node in (1, 2)] == [("77", 2), ("2147483647", 5)]
        assert kafka._call(lambda engine: engine.configs.integer("message.max.bytes")) == 4000


def test_the_environment_names_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('format = 1\n[[broker]]\nnode_id = 5\nrack = "x"\n[[broker]]\nnode_id = 8')
    monkeypatch.setenv("WIREBROKER_LIKE", str(file))
    options = broker_options(build_parser().parse_args(["serve"]))
    assert options.new_engine(0).cluster.brokers.keys() == {5, 8}


def test_a_broker_with_data_keeps_what_the_file_made(file: Path, tmp_path: Path) -> None:
    file.write_text(
        GOOD.replace("\n[[", '\n[features]\n"transaction.version" = [0, 2, 1]\n[[') + '[[topic]]\nname = "t"\nreplicas = [[1]]'
    )
    for _ in range(2):
        with MockKafka(like=file, data=tmp_path / "data") as kafka:
            kafka.produce("t", value="x")
            assert kafka._call(lambda engine: engine.configs.features["transaction.version"]) == 1
    with MockKafka(like=file, data=tmp_path / "data") as kafka:
        assert len(kafka.records("t")) == 2


# Differences


def test_compare_prints_what_differs(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "stage.toml"
    with MockKafka(topics={"orders": {"partitions": 3, "configs": {"retention.ms": 1000}}, "only": 1}) as kafka:
        learn(kafka, file)
    with MockKafka(topics={"orders": 6}, configs={"message.max.bytes": 5000}) as kafka:
        learn(kafka, other)
    capsys.readouterr()
    assert main(["learn", "--compare", str(file), str(file)]) == 0
    assert capsys.readouterr().out == f"{file} and {file} are alike\n"
    assert main(["learn", "--compare", str(file), str(other)]) == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        "settings", "message.max.bytes its default 5000",
        "topics", "only partitions 1, replicas 1 —", "orders: partitions 3 6", "orders: retention.ms 1000 its default",
        "4 differences",
    ]  # fmt: skip


def test_compare_says_what_it_cannot_compare(
    secured: MockKafka, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hashed, partly = tmp_path / "hashed.toml", tmp_path / "partly.toml"
    learn(secured, file, user="admin")
    learn(secured, hashed, "--anonymous", user="admin")
    learn(secured, partly, user="alice")
    capsys.readouterr()
    assert main(["learn", "--compare", str(file), str(hashed)]) == 0
    printed = capsys.readouterr()
    assert f"topics: not compared, because the names in {hashed} are hashed" in printed.err
    assert printed.out == f"{file} and {hashed} are alike in the parts that were compared\n"
    for files in ((file, partly), (partly, file)):
        assert main(["learn", "--compare", *map(str, files)]) == 0
        printed = capsys.readouterr()
        assert printed.out == f"{files[0]} and {files[1]} are alike in the parts that were compared\n"
        assert f"quotas: compared as far as {partly} could be read (CLUSTER_AUTHORIZATION_FAILED)" in printed.err
    assert main(["learn", "--compare", str(file), str(partly), "--out", "x"]) == 2
    assert "--compare reads two files" in capsys.readouterr().err
    file.write_text("damaged")
    assert main(["learn", "--compare", str(file), str(hashed)]) == 2
    assert "this is not TOML" in capsys.readouterr().err


def test_compare_reports_what_was_read_of_a_section(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    acl = '[[acl]]\npermission = "ALLOW"\nprincipal = "User:d.e"\noperation = "READ"\nresource = "TOPIC"\nname = "a.b"\n'
    file.write_text(GOOD + acl)
    other = tmp_path / "other.toml"
    other.write_text(GOOD)
    assert main(["learn", "--compare", str(file), str(other)]) == 1
    assert " ".join(capsys.readouterr().out.split()).endswith(" allow User:d.e READ TOPIC a.b yes — 1 difference")
    other.write_text('unread = [{ section = "topics", error = "no" }]' + TOPIC)
    assert main(["learn", "--compare", str(file), str(other)]) == 1, "a topic that was read is missing in the other file"
    printed = " ".join(capsys.readouterr().out.split())
    assert "topics t — partitions 1, replicas 1 acls allow" in printed
    assert printed.endswith("2 differences in the parts that were compared")


# Servers that are not Kafka brokers


def _silent(connection: socket.socket) -> None:
    connection.recv(1)
    threading.Event().wait(0.3)


def _drip(connection: socket.socket) -> None:
    """Sends a response byte by byte. The client never waits long for the next byte, but never gets a complete response."""
    with suppress(OSError):
        for each in b"\0\0\1\0" + bytes(100):
            connection.sendall(bytes([each]))
            threading.Event().wait(0.05)


def _answering(text: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(text)

    return answer


@contextmanager
def _server(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with listening.accept()[0] as connection:
                behave(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield "{}:{}".format(*listening.getsockname()[:2])
        thread.join(10)


@pytest.mark.parametrize(
    ("behave", "problem"),
    [
        (lambda connection: connection.recv(1000), "the broker closed the connection"),
        (_answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "so this is not a Kafka broker"),
        (_answering(b"\0\0\0\x06\0\0\0\x01\0\0"), "the frame begins"),
        (
            _answering(b"\0\0\0\x0a\0\0\0\x01\0\x24\0\0\0\0"),
            "answers ApiVersions with TOPIC_ALREADY_EXISTS",
        ),
        (_answering(b"\x05\0\0\0"), "so this is not a Kafka broker"),
        (_silent, "no response in time"),
        (_drip, "no response in time"),
    ],
    ids=["closes", "speaks HTTP", "cuts its response", "refuses", "is too large", "is silent", "drips"],
)
def test_what_is_not_a_broker_ends_in_one_sentence(
    behave: Callable[[socket.socket], None], problem: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = tmp_path / "quick.properties"
    quick.write_text("request.timeout.ms=100\n")
    with _server(behave) as address:
        assert main(["learn", "--bootstrap", address, "--out", str(file), "--command-config", str(quick)]) == 2
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 1
    assert problem in said
    assert address in said
    assert not file.exists()


def test_a_cluster_that_contradicts_itself_ends_in_one_sentence(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(facts: Any, request: Any) -> MetadataResponse:
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=address_of(kafka.bootstrap_servers)[1])
        partition = MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, replica_nodes=[1, 1], isr_nodes=[1], offline_replicas=[]
        )
        return MetadataResponse(
            brokers=[broker], topics=[MetadataResponseTopic(error_code=0, name="orders", partitions=[partition])]
        )

    with MockKafka(topics="orders") as kafka:
        kafka.faults.add(faults.answer(told, api="Metadata"))
        assert main(["learn", "--bootstrap", kafka.bootstrap_servers, "--out", str(file)]) == 2
        assert f"{kafka.bootstrap_servers} contradicts itself: orders-0 has the replicas [1, 1]" in capsys.readouterr().err
    assert not file.exists()


def test_a_section_without_a_response_is_named_and_the_others_are_read(file: Path) -> None:
    with MockKafka(topics="orders", users={"alice": "x"}) as kafka:
        kafka.faults.add(faults.disconnect(api="DescribeAcls"))
        learned = learn(kafka, file)
    assert [(each.section, each.needs) for each in learned.unread] == [("acls", "DESCRIBE on CLUSTER kafka-cluster")]
    assert [each.name for each in learned.users] == ["alice"]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--bootstrap", "nowhere", "--out", "x"], "'nowhere' is not host:port"),
        (["--out", "x"], "give --bootstrap (the cluster) and --out"),
        (["--bootstrap", "127.0.0.1:1", "--out", "x"], "127.0.0.1:1: Connection refused; if this listener has TLS or SASL"),
        (["--bootstrap", "127.0.0.1:1", "--out", "x", "--command-config", "none"], "--command-config none: No such file"),
    ],
)
def test_what_cannot_be_done_ends_in_one_sentence(flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", *flags]) == 2
    assert problem in capsys.readouterr().err


def test_a_file_that_cannot_be_written_ends_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["learn", "--bootstrap", "127.0.0.1:1", "--out", str(tmp_path / "no" / "where.toml")])
    assert ended.value.code == 2
    assert f"where.toml cannot be written: there is no folder {tmp_path / 'no'}" in capsys.readouterr().err


def test_the_next_broker_is_asked_if_the_first_one_is_down(file: Path) -> None:
    with MockKafka(topics="orders") as kafka:
        assert main(["learn", "--bootstrap", f"127.0.0.1:1,{kafka.bootstrap_servers}", "--out", str(file)]) == 0
    assert [each.name for each in read(file).topics] == ["orders"]


def test_a_broker_that_is_down_is_named(file: Path) -> None:
    with MockKafka(brokers=2, topics={"orders": {"replication_factor": 2}}) as kafka:
        kafka.kill_broker(2)
        learned = learn(kafka, file)
    assert [each.node_id for each in learned.brokers] == [1, 2]
    assert ("broker 2", DOWN) in [(each.section, each.error) for each in learned.unread]


def test_an_advertised_address_that_cannot_be_reached_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(facts: Any, request: Any) -> MetadataResponse:
        return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1)], topics=[])

    with MockKafka() as kafka:
        kafka.faults.add(faults.answer(told, api="Metadata"))
        learned = learn(kafka, file)
    error = "127.0.0.1:1, the advertised listener of broker 1: Connection refused"
    assert learned.unread == [Unread(section=each, error=error) for each in ("settings of brokers", "groups")]
    assert f"not read    settings of brokers: {error}\n" in capsys.readouterr().out
