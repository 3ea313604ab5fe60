"""A message is read field by field. This gives the same values as the codec, and their positions, and it finds damage at the
same bytes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kafkawire.codec import decode, encode
from kafkawire.declare import Message, Struct
from kafkawire.errors import ProtocolError
from kafkawire.fields import FieldDamage, Node, read_fields
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.random_messages import MESSAGES, Maker, damaged, versions_of


def check(nodes: list[Node], value: Struct, version: int) -> None:
    """Checks that the nodes are exactly the fields that the struct `value` has in the version `version`."""
    by_name = {node.name: node for node in nodes}
    for field in value.__wire__:
        if field.name in by_name:
            check_value(by_name[field.name].value, getattr(value, field.name), field.spec, version)
        else:
            assert field.tag is not None or not field.present(version)


def check_value(found: Any, value: Any, spec: Any, version: int) -> None:
    if value is None:
        assert found is None
    elif isinstance(spec, list):
        assert len(found) == len(value)
        for node, each in zip(found, value, strict=True):
            check_value(node.value, each, spec[0], version)
    elif isinstance(spec, type):
        check(found, value, version)
    else:
        assert found == value


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_fields_are_those_that_the_codec_reads_also_in_damaged_bytes(cls: type[Message]) -> None:
    random = Random(cls.__name__)
    for version in versions_of(cls):
        for seed in range(2):
            raw = encode(Maker((cls.__name__, version, seed)).message(cls, version), version)
            for given in (raw, damaged(raw, random), damaged(raw, random)):
                try:
                    value, end = decode(cls, given, version)
                except ProtocolError:
                    with pytest.raises(ProtocolError):
                        read_fields(cls, given, version)
                else:
                    nodes, stop = read_fields(cls, given, version)
                    assert stop == end
                    check(nodes, value, version)


def test_a_node_knows_its_bytes() -> None:
    raw = encode(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 8)
    (topics, *_), _ = read_fields(MetadataRequest, b"xx" + raw, 8, 2)
    (name,) = topics.leaves()
    assert (name.name, name.value, name.start, name.end) == ("name", "orders", 6, 14)
    assert (b"xx" + raw)[name.start : name.end] == b"\x00\x06orders"


def test_damage_has_its_field_and_position() -> None:
    raw = encode(MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name="orders")]), 8)
    with pytest.raises(FieldDamage) as damage:
        read_fields(MetadataRequest, raw[:12], 8)
    assert (damage.value.path, damage.value.position) == ("topics[1].name", 7)
    assert str(damage.value) == "topics[1].name at byte 7: it announces 6 bytes, but only 3 are left"
