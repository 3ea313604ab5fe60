"""The entities of fields: Kafka's `entityType`, and the entities that scripts/generate-messages adds. Also tests the functions
that search for fields and values by entity."""

from __future__ import annotations

import pytest

from kafkawire.declare import Field, Struct
from kafkawire.entities import first, holders, mentions, values
from kafkawire.messages.create_topics import CreatableTopicResult
from kafkawire.messages.describe_groups import DescribeGroupsRequest
from kafkawire.messages.fetch import FetchRequest
from kafkawire.messages.join_group import JoinGroupRequest
from kafkawire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkawire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from responses import sole
from wire.random_messages import MESSAGES


def fields_of(cls: type[Struct]) -> list[Field]:
    """Returns the fields of a class, and the fields of the structs in this class."""
    found = list(cls.__wire__)
    for field in cls.__wire__:
        element = field.spec[0] if isinstance(field.spec, list) else field.spec
        found += fields_of(element) if isinstance(element, type) else []
    return found


@pytest.mark.parametrize(
    ("name", "spec", "entity"),
    [
        ("topic_id", "uuid", "topicId"), ("topic_name", "string", "topicName"), ("group_id", "string", "groupId"),
        ("error_code", "int16", "errorCode"), ("partition_index", "int32", "partition"),
        ("producer_id", "int64", "producerId"), ("producer_epoch", "int16", "producerEpoch"),
        ("transactional_id", "string", "transactionalId"), ("leader_id", "int32", "brokerId"),
    ],
)  # fmt: skip
def test_every_field_of_a_name_that_can_mean_only_one_thing_is_marked(name: str, spec: str, entity: str) -> None:
    found = [field.entity for cls in MESSAGES if hasattr(cls, "__schema__") and cls.__schema__.key >= 0
             for field in fields_of(cls) if (field.name, field.spec) == (name, spec)]  # fmt: skip
    assert set(found) == {entity}


def test_the_same_name_may_mean_different_things() -> None:
    assert holders(CreatableTopicResult, "topicName") == ("name",)
    assert not mentions(JoinGroupRequest, "topicName"), "a group's protocols have names too"
    assert mentions(FetchRequest, "partition")


def test_values_are_found_at_any_depth_and_in_plain_lists() -> None:
    parts = [PartitionProduceResponse(index=index, error_code=index * 3, base_offset=-1) for index in (0, 1, 2)]
    response = ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=parts)])
    assert list(values(response, "errorCode")) == [0, 3, 6]
    assert list(values(DescribeGroupsRequest(groups=["a", "b"]), "groupId")) == ["a", "b"]
    nested = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="team", topics=None)])
    assert [each for each in values(nested, "groupId") if each] == ["team"]
    assert first(sole(response.responses), "topicName") == "orders"
    assert first(response, "topicName") is None
