"""The generated messages match the definitions of three releases. The table of APIs matches the versions that a real Kafka
4.3.1 broker announces.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire import registry
from kafkawire.declare import Message, Struct
from kafkawire.messages import APIS
from wire.random_messages import MESSAGES, versions_of

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "generate-messages"
ADVERTISED = {
    row["key"]: row for row in json.loads((ROOT / "tests" / "data" / "apiversions-4.3.1.json").read_text())["api_keys"]
}
"""The versions in a Kafka 4.3.1 broker's response to ApiVersions."""


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_what_is_checked_in_is_what_kafkas_definitions_give() -> None:
    ran = generate("--check")
    if ran.returncode == 2:
        pytest.skip(f"no Kafka jars: {ran.stderr.strip()}")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_changed_module_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "scripts" / "generate-messages"
    kafkawire = tmp_path / "protocol" / "kafkawire"
    messages = kafkawire / "messages"
    joining = Path("generate_parts", "joining.py")
    for path, original in [(copy, SCRIPT), (copy.parent / joining, SCRIPT.parent / joining)] + [
        (kafkawire / folder / module.name, module)
        for folder in ("messages", "coordinator_records", "metadata_records", "remote_records")
        for module in (ROOT / "protocol" / "kafkawire" / folder).glob("*.py")
    ]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(original.read_text())
    (messages / "produce.py").write_text((messages / "produce.py").read_text().replace('"int16"', '"int32"', 1))
    (messages / "heartbeat.py").unlink()
    (messages / "invented.py").write_text("")
    ran = subprocess.run([sys.executable, str(copy), "--check"], capture_output=True, text=True, timeout=120, check=False)
    if ran.returncode == 2:
        pytest.skip(f"no Kafka jars: {ran.stderr.strip()}")
    assert ran.returncode == 1
    assert [line.split()[0] for line in ran.stderr.splitlines()] == [
        "messages/heartbeat.py", "messages/invented.py", "messages/produce.py",
    ]  # fmt: skip


def test_a_jar_that_cannot_be_had_is_told_apart_from_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = tmp_path / "wirebroker" / "kafka-clients-4.3.1.jar"
    cached.parent.mkdir()
    cached.write_bytes(b"no jar")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ran = generate("--check")
    assert ran.returncode == 2
    assert "is not the jar that Apache released" in ran.stderr


# The table of APIs


def test_every_api_of_a_real_broker_has_its_versions() -> None:
    assert len(ADVERTISED) == 75
    served = {key: registry.versions(key) for key in ADVERTISED}
    # Kafka announces Produce from version 0 on (for librdkafka before 2.4), but serves it only from version 3 on.
    assert served.pop(registry.PRODUCE) == (3, ADVERTISED[registry.PRODUCE]["max"])
    assert served == {key: (row["min"], row["max"]) for key, row in ADVERTISED.items() if key != registry.PRODUCE}


def test_every_api_of_a_real_broker_has_its_name() -> None:
    # A broker offers the telemetry APIs only if a metrics plug-in receives telemetry.
    here = {key for key, api in APIS.items() if api.newest >= 0}
    only_here = here - ADVERTISED.keys()
    assert {registry.api_name(key) for key in only_here} == {"GetTelemetrySubscriptions", "PushTelemetry"}
    assert {key: registry.api_name(key) for key in ADVERTISED} == {key: row["name"] for key, row in ADVERTISED.items()}
    assert {name: APIS[key].name for name, key in registry.KEYS.items()} == {name: name for name in registry.KEYS}
    assert len(here) == 77


def test_apis_of_other_releases_have_names_and_no_versions() -> None:
    others = {api.name: registry.versions(key) for key, api in APIS.items() if api.newest < 0}
    assert others == dict.fromkeys(
        (
            "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition", "Envelope",
            "AllocateProducerIds", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot", "BrokerRegistration",
            "BrokerHeartbeat", "ControllerRegistration", "AssignReplicasToDirs", "UpdateRaftVoter",
            "StreamsGroupTopologyDescriptionUpdate", "UnregisterController",
        ), (0, -1),
    )  # fmt: skip


def test_every_api_without_versions_is_between_nodes_or_of_a_newer_release() -> None:
    without = {key for key, api in APIS.items() if api.newest < 0}
    newer = {registry.KEYS[name] for name in ("StreamsGroupTopologyDescriptionUpdate", "UnregisterController")}
    assert without - newer | {registry.KEYS["WriteTxnMarkers"]} == registry.BETWEEN_NODES


def test_an_unknown_key_has_a_name_and_no_classes() -> None:
    assert registry.api_name(999) == "Api999"
    for ask in (registry.request_class, registry.response_class, registry.versions):
        with pytest.raises(KeyError):
            ask(999)
    for ask_header in (registry.request_header_version, registry.response_header_version):
        with pytest.raises(KeyError):
            ask_header(999, 0)


def test_the_classes_have_the_versions_of_the_table_and_those_of_other_releases() -> None:
    newer = {}
    for key, api in APIS.items():
        for cls, flexible in (
            (registry.request_class(key), api.flexible_request),
            (registry.response_class(key), api.flexible_response),
        ):
            schema = cls.__schema__
            assert (schema.key, schema.flexible) == (key, flexible)
            # Version 0 of the share group APIs was unstable in Kafka.
            assert schema.versions[0] == (1 if "Share" in api.name and api.oldest == 1 else 0)
            if api.newest >= 0 and schema.versions[1] != api.newest:
                newer[api.name] = (api.newest, schema.versions[1])
    assert newer == {
        "InitProducerId": (5, 6),  # unstable, KIP-939
        "ApiVersions": (4, 5), "TxnOffsetCommit": (5, 6), "DeleteGroups": (2, 3), "StreamsGroupHeartbeat": (0, 1),
        "StreamsGroupDescribe": (0, 1),
    }  # fmt: skip


def test_the_api_versions_response_header_never_has_tags() -> None:
    assert [registry.response_header_version(registry.API_VERSIONS, version) for version in range(5)] == [0] * 5
    assert [registry.request_header_version(registry.API_VERSIONS, version) for version in range(5)] == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_can_be_made_of_nothing_and_has_slots(cls: type[Message]) -> None:
    made = cls()
    assert not hasattr(made, "__dict__")
    assert made == cls()
    for version in versions_of(cls):
        for field in cls.__wire__:
            if field.tag is not None and field.present(version):
                assert version >= cls.__schema__.flexible, (cls, field.name)


def test_each_struct_belongs_to_one_message() -> None:
    owner: dict[type[Struct], type[Message]] = {}

    def visit(cls: type[Struct], message: type[Message]) -> None:
        for field in cls.__wire__:
            element = field.spec[0] if isinstance(field.spec, list) else field.spec
            if isinstance(element, type):
                assert owner.setdefault(element, message) is message
                visit(element, message)

    for message in MESSAGES:
        visit(message, message)
