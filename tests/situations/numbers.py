"""Texts that are numbers, truth values or ids for Java, or are not: values of settings, names of brokers, and parts of keys."""

from __future__ import annotations

from typing import Any

from requesting import find_coordinator, plain
from responses import sole
from situations.side import Side

INTEGERS = (
    "5", "+5", "-0", "--5", "+", "", " 5 ", "5\0", "5\u2003", "5\x1f", "\xa05", "1_0", "1,0", "5.0", "5L", "0x10", "1e3",
    "00000000000005", "\u0663", "\uff15", "+\u0967\u0968", "\U0001d7d3", "\xb2", "\u2164",
    "9223372036854775807", "9223372036854775808",
)  # fmt: skip
"""Java reads the decimal digits of every script, but no digits beyond U+FFFF."""
DOUBLES = (
    "0.5", "+.5", "1.", " .5 ", ".5\0", "0,5", "0_5", "0.5d", "0.5F", "0.5L", "5e-1", "5e", "1e-400", "0x1p-1", "0x.8p0",
    "0x1.p-1d", "0x.p1", "0x1.0", "-0X1P-1", "0x1p-99999", "NaN", "nan", "NaNd", "+NaN", "Infinity", "inf", "0b1", "",
    "\u0660.\u0665",
)  # fmt: skip
TRUTHS = ("true", "TRUE", " false ", "FAL\u017fE", "\uff34RUE", "t", "1", "yes", "true\0", "\xa0true", "")
"""U+017F is the long s, whose upper case is S."""
IDS = (
    "1", "+1", "01", "00000000000000001", "\u0661", "+\uff11", "\U0001d7cf", "1_0", "0x1", "1 ", "\xa01", "2", "-2", "\u0968",
    "2147483647", "2147483648", "9999999999", "-2147483648",
)  # fmt: skip
HEAD = "A" * 20
UUIDS = (
    f"{HEAD}AQ", f"{HEAD}AQ==", f"{HEAD}AQ=", f"{HEAD}AR", f"{HEAD}A", f"{HEAD}AQA", f"{HEAD}AQAA", f"{HEAD}-_",
    f"{HEAD}+/", f"{HEAD}!AQ", f"{HEAD}A Q", f"{HEAD}A\u0663", f" {HEAD}AQ", f"{HEAD}AQ\n", f"AAAA={HEAD[4:]}AQ",
    f"{HEAD}AQ===", f"{HEAD}==", "",
)  # fmt: skip
SETTINGS = {"retention.ms": INTEGERS, "segment.bytes": INTEGERS, "min.cleanable.dirty.ratio": DOUBLES, "preallocate": TRUTHS}
TOPIC, BROKER, LOGGER, SHARE, SET = 2, 4, 8, 2, 0
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
    return outcomes


def _altered(side: Side, kind: int, resource: str, name: str, value: str) -> str:
    configs = [{"name": name, "config_operation": SET, "value": value}]
    resources = [{"resource_type": kind, "resource_name": resource, "configs": configs}]
    request = plain("IncrementalAlterConfigs", resources=resources, validate_only=True)
    return _outcome(sole(side.wire.request(request, 1).responses))


def _outcome(response: Any) -> str:
    return f"{response.error_code} {response.error_message or ''}"
