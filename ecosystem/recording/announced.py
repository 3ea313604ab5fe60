"""Records the API versions and features that a running broker announces, and the settings that differ from the settings of
4.3.1.

The output has the form of broker/wirebroker/core/releases/kafka-X.Y.json.
"""

from __future__ import annotations

import json
import struct
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from default_settings import DEFAULT, RESOURCES, default_of
from ecosystem.recording.common import DATA, ROOT
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkawire.registry import KEYS, PRODUCE, api_name
from wirebroker.client.wire import ConnectionClosed, WireClient
from wirebroker.core.setting_definitions import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    ConfigType,
    Setting,
)

Json = dict[str, Any]
SETTINGS = {
    "broker": BROKER_SETTINGS,
    "topic": TOPIC_SETTINGS,
    "group": GROUP_SETTINGS,
    "client metrics": CLIENT_METRICS_SETTINGS,
}
"""The settings of wirebroker, which are the settings of 4.3.1."""
TELLS_TYPES = ROOT / "broker" / "wirebroker" / "core" / "releases" / "kafka-2.8.json"
DEFAULTS = DATA / "defaults-4.3.1.json"
NEWEST_ASKED = 4
"""The version of ApiVersions that returns all ranges of features, also ranges that begin at 0 (KIP-1022)."""
NOT_OURS = {
    4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown", 52: "Vote", 53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch", 56: "AlterPartition", 58: "Envelope", 59: "FetchSnapshot", 62: "BrokerRegistration",
    63: "BrokerHeartbeat", 67: "AllocateProducerIds", 70: "ControllerRegistration", 73: "AssignReplicasToDirs",
    82: "UpdateRaftVoter",
}  # fmt: skip
"""APIs that wirebroker does not serve. Most of these APIs are only for brokers and controllers."""
BEFORE_1_1 = -1
"""Version 0 of DescribeConfigs does not return the source of a setting's value. This number takes the place of the source."""
PRODUCE_BODY = struct.pack(">hii", -1, 1000, 0)
"""The body of a Produce request without topics, in versions 0 to 2."""


def announced(client: WireClient, release: str, version: str) -> Json:
    """Returns the description of the broker's release. The broker has a topic `t`."""
    apis = versions_of(client)
    response = _told(client, min(apis["ApiVersions"][1], NEWEST_ASKED))
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    reads_from = next(oldest for oldest in (0, 1, 2, 3) if oldest == 3 or _reads_produce(client, oldest))
    return {
        "release": release,
        "version": version,
        "api_versions": apis,
        "reads_from": {"Produce": reads_from} if reads_from > apis["Produce"][0] else {},
        "features": {
            each.name: [each.min_version, each.max_version, levels.get(each.name, 0)]
            for each in sorted(response.supported_features, key=lambda each: str(each.name))
        },
        "settings": {kind: _changes(kind, told) for kind, told in described_settings(client, apis).items() if told},
    }


def versions_of(client: WireClient) -> dict[str, tuple[int, int]]:
    """Returns the oldest and newest version of each API that a broker announces, by name."""
    told = _told(client, 0).api_keys
    newest = next(each.max_version for each in told if each.api_key == KEYS["ApiVersions"])
    told = _told(client, min(newest, NEWEST_ASKED)).api_keys
    return {
        NOT_OURS.get(each.api_key, api_name(each.api_key)): (each.min_version, each.max_version)
        for each in sorted(told, key=lambda each: int(each.api_key))
    }


def _told(client: WireClient, version: int) -> Any:
    return client.request(ApiVersionsRequest(client_software_name="wirebroker", client_software_version="1"), version)


def described_settings(client: WireClient, apis: dict[str, tuple[int, int]]) -> dict[str, dict[str, Any]]:
    """Returns the settings of a broker, the topic `t`, a group and client metrics: the entries of DescribeConfigs by name."""
    return {kind: _described(client, *named, min(apis["DescribeConfigs"][1], 4)) for kind, named in RESOURCES.items()}


def make_topic(client: WireClient) -> None:
    """Make the topic `t`, and wait until the broker has it."""
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 2)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    while client.request(asked, 4).topics[0].error_code:
        time.sleep(0.05)


def _described(client: WireClient, kind: int, name: str, version: int) -> dict[str, Any]:
    asked = [DescribeConfigsResource(kind, name, None)]
    try:
        request = DescribeConfigsRequest(resources=asked, include_synonyms=True, include_documentation=False)
        return {each.name: each for each in client.request(request, version).results[0].configs}
    except ConnectionClosed:  # the release does not have this kind of resource
        return {}


def _changes(kind: str, settings: dict[str, Any]) -> Json:
    """Returns those settings that differ from the recording. For each name, the result has the setting's type, default and
    marks, or None if the release does not have the setting.
    """
    recorded = json.loads(DEFAULTS.read_text(encoding="utf-8"))[kind]
    changes: Json = {}
    for name in sorted(recorded.keys() | settings.keys()):
        if name not in settings or _is_unknown(settings[name], SETTINGS[kind].get(name)):
            changes[name] = None
            continue
        told, known = settings[name], SETTINGS[kind].get(name)
        if known is None or name not in recorded or _defined(kind, told, known, recorded[name]) != _definition(known):
            changes[name] = _defined(kind, told, known, "")
    return changes


def _is_unknown(entry: Any, known: Setting | None) -> bool:
    """Tells whether the release does not have the setting. A broker that was started with an unknown setting returns this
    setting as a secret without a type.
    """
    return known is not None and not known.sensitive and entry.is_sensitive and not entry.config_type


def _defined(kind: str, entry: Any, known: Setting | None, recorded: str | None) -> list[str]:
    """Returns the fields of the setting's line in setting_definitions.txt; `recorded` is the default in the words of that
    file."""
    type_ = ConfigType(entry.config_type) if entry.config_type else known.type if known else _type_later(kind, entry.name)
    shown_alone = known is None and not entry.synonyms and entry.config_source == DEFAULT
    default = entry.value if shown_alone or entry.is_default else default_of(entry)
    if known is not None and _is_set(entry):
        default = recorded
    text = known.default if known is not None and default == recorded else default
    dynamic = kind == "broker" and not entry.read_only
    return [type_.name.lower(), "-" if text is None else text or '""', *(["dynamic"] if dynamic else [])]


def _type_later(kind: str, name: str) -> ConfigType:
    """Returns a setting's type as a later release returns it, because releases before 2.6 return no types."""
    later = json.loads(TELLS_TYPES.read_text(encoding="utf-8"))["settings"][kind].get(name)
    return ConfigType[later[0].upper()] if later else ConfigType.STRING


def _is_set(entry: Any) -> bool:
    """For a response of a release before 1.1, tells whether a value was set. A set value is not the default."""
    return entry.config_source == BEFORE_1_1 and not entry.is_default


def _definition(known: Setting) -> list[str]:
    return [
        known.type.name.lower(),
        "-" if known.default is None else known.default or '""',
        *([] if known.read_only else ["dynamic"]),
    ]


def _reads_produce(client: WireClient, version: int) -> bool:
    with closing(WireClient(*client.address)) as asking:
        asking.send_raw(PRODUCE, version, PRODUCE_BODY, 1)
        try:
            asking.frame()
        except ConnectionClosed:
            return False
        return True


def write(path: Path, described: Json) -> None:
    """Writes one line for each API, feature and setting. The file's own notes about settings stay, because Kafka does not
    return notes.
    """
    _keep_notes(json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}, described)
    blocks = [f' "{name}": {_block(value)}' for name, value in described.items()]
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def _keep_notes(before: Json, described: Json) -> None:
    for kind, settings in before.get("settings", {}).items():
        told = described["settings"].get(kind, {})
        for name, change in settings.items():
            notes = [each for each in change or () if each == "internal" or each.startswith(("valid=", "after="))]
            if notes:  # a setting may differ from 4.3.1 only in its notes
                told.setdefault(name, change)
            if told.get(name):
                told[name] += [each for each in notes if each not in told[name]]
        described["settings"][kind] = dict(sorted(told.items()))


def _block(value: Any, indent: str = " ") -> str:
    if not isinstance(value, dict) or len(value) < 2:
        return json.dumps(value)
    inner = indent + " "
    lines = [f"{inner}{json.dumps(name)}: {_block(each, inner)}" for name, each in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
