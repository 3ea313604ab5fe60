"""Texts that Java does or does not accept as numbers, truth values, durations, addresses or ids; and texts whose length Java
counts in units of UTF-16."""

from __future__ import annotations

from typing import Any

from requesting import find_coordinator, plain
from responses import only, sole
from situations.side import Side

INTEGERS = (
    "5", "+5", "-0", "--5", "+", "", " 5 ", "5\0", "5\u2003", "5\x1f", "\xa05", "1_0", "1,0", "5.0", "5L", "0x10", "1e3",
    "00000000000005", "\u0663", "\uff15", "+\u0967\u0968", "\U0001d7d3", "\xb2", "\u2164", "9223372036854775807",
    "9223372036854775808",
)  # fmt: skip
"""Java reads the decimal digits of every script, but no digits beyond U+FFFF."""
DOUBLES = (
    "0.5", "+.5", "1.", " .5 ", ".5\0", "0,5", "0_5", "0.5d", "0.5F", "0.5L", "5e-1", "5e", "1e-400", "0x1p-1", "0x.8p0",
    "0x1.p-1d", "0x.p1", "0x1.0", "-0X1P-1", "0x1p-99999", "NaN", "nan", "NaNd", "+NaN", "Infinity", "inf", "0b1", "",
    "\u0660.\u0665",
)  # fmt: skip
TRUTHS = ("true", "TRUE", " false ", "FAL\u017fE", "\uff34RUE", "t", "1", "yes", "true\0", "\xa0true", "")
"""U+017F is the long s. Its upper case is S."""
IDS = (
    "1", "+1", "01", "00000000000000001", "\u0661", "+\uff11", "\U0001d7cf", "1_0", "0x1", "1 ", "\xa01", "2", "-2", "\u0968",
    "2147483647", "2147483648", "9999999999", "-2147483648",
)  # fmt: skip
HEAD = "A" * 20
UUIDS = (
    f"{HEAD}AQ", f"{HEAD}AQ==", f"{HEAD}AQ=", f"{HEAD}AR", f"{HEAD}A", f"{HEAD}AQA", f"{HEAD}AQAA", f"{HEAD}-_", f"{HEAD}+/",
    f"{HEAD}!AQ", f"{HEAD}A Q", f"{HEAD}A\u0663", f" {HEAD}AQ", f"{HEAD}AQ\n", f"AAAA={HEAD[4:]}AQ", f"{HEAD}AQ===",
    f"{HEAD}==", "",
)  # fmt: skip
DURATIONS = (
    "PT1S", "pt1s", "P1D", "P1DT1H", "P1DT", "P", "PT", "", "PT0S", "PT-0S", "PT-1S", "-PT1S", "+PT1S", "-PT-1S", "P+1D",
    "PT1H-30M", "PT+1.5S", "PT1.123456789S", "PT1.1234567890S", "PT1,5S", "PT1.S", "PT.5S", "PT1.5H", "P1W", "PT1H1H",
    "PT1S1M", "PT1S ", "PT 1S", "PT\u0661S", "P106751991167300D", "P106751991167301D", "PT9223372036854775807S",
    "PT9223372036854775808S", "P106751991167300DT86399S",
)  # fmt: skip
RESETS = (
    *(f"by_duration:{each}" for each in DURATIONS), "BY_DURATION:PT1S", "by_durat\u0131on:PT1S", "by_duration: PT1S",
    "by_duration", " by_duration:PT1S", "earliest", "EARLIEST", " latest ", "\xa0latest",
)  # fmt: skip
ADDRESSES = (
    "1.2.3.4", "01.02.03.04", "1.2.3", "1.2", "1", "256.1.1.1", "1.2.3.256", "1.2.65535", "1.2.65536", "1.16777215",
    "1.16777216", "4294967295", "4294967296", "1.2.3.", "1..2.3", "1.2.3.4.5", " 1.2.3.4", "\u0661.2.3.4", "\u0661",
    "00000000000000001", "::1", "[::1]", "::ffff:1.2.3.4", "",
)  # fmt: skip
METADATA = ("x" * 4096, "x" * 4097, "\xe9" * 4096, "\uffff" * 4097, "\U0001f600" * 2048, "\U0001f600" * 2049)
SETTINGS = {"retention.ms": INTEGERS, "segment.bytes": INTEGERS, "min.cleanable.dirty.ratio": DOUBLES, "preallocate": TRUTHS}
TOPIC, BROKER, LOGGER, GROUP, SHARE, SET = 2, 4, 8, 32, 2, 0
LOADING = (14, 15, 16)
STATE = "AAAAAAAAAAAAAAAAAAAAAQ"
CHANGES = {BROKER: ("log.cleaner.threads", "1"), LOGGER: ("kafka", "INFO")}


def play(side: Side) -> dict[str, str]:
    """Sends all texts, and returns the error and the message of each response."""
    topic = side.topic("numbers")
    side.find(f"group:{STATE}:0", SHARE)
    outcomes = {}
    for name, values in SETTINGS.items():
        for value in values:
            outcomes[f"{name} {value!r}"] = _altered(side, TOPIC, topic, name, value)
    for node in IDS:
        for kind, (name, value) in CHANGES.items():
            outcomes[f"resource {kind} {node!r} is altered"] = _altered(side, kind, node, name, value)
            asked = [{"resource_type": kind, "resource_name": node, "configuration_keys": []}]
            described = sole(side.wire.request(plain("DescribeConfigs", resources=asked), 4).results)
            outcomes[f"resource {kind} {node!r} is described"] = _outcome(described)
        found = sole(side.wire.request(find_coordinator(f"group:{STATE}:{node}", kind=SHARE), 6).coordinators)
        outcomes[f"partition {node!r}"] = _outcome(found)
    for uuid in UUIDS:
        found = sole(side.wire.request(find_coordinator(f"group:{uuid}:0", kind=SHARE), 6).coordinators)
        outcomes[f"topic id {uuid!r}"] = _outcome(found)
    outcomes |= {f"reset {value!r}": _altered(side, GROUP, "shared", "share.auto.offset.reset", value) for value in RESETS}
    for address in ADDRESSES:
        entries = [
            {
                "entity": [{"entity_type": "ip", "entity_name": address}],
                "ops": [{"key": "connection_creation_rate", "value": 5.0, "remove": False}],
            }
        ]
        quotas = side.wire.request(plain("AlterClientQuotas", entries=entries, validate_only=True), 1)
        outcomes[f"address {address!r}"] = _outcome(sole(quotas.entries))
    side.find("group")
    for metadata in METADATA:
        committed = {"partition_index": 0, "committed_offset": 1, "committed_metadata": metadata}
        request = plain("OffsetCommit", group_id="group", topics=[{"name": topic, "partitions": [committed]}])
        told = side.until(request, 8, lambda told: only(told).error_code not in LOADING)
        outcomes[f"metadata of {len(metadata)} {metadata[0]!r}"] = str(only(told).error_code)
    return outcomes


def _altered(side: Side, kind: int, resource: str, name: str, value: str) -> str:
    configs = [{"name": name, "config_operation": SET, "value": value}]
    resources = [{"resource_type": kind, "resource_name": resource, "configs": configs}]
    request = plain("IncrementalAlterConfigs", resources=resources, validate_only=True)
    return _outcome(sole(side.wire.request(request, 1).responses))


def _outcome(response: Any) -> str:
    return f"{response.error_code} {response.error_message or ''}"
