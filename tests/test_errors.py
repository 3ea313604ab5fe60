"""The error codes are the same as Kafka's. For display, any other code also has a name."""

from __future__ import annotations

import kio.schema.errors
import pytest

from kafkawire.errors import RETRIABLE, EncodeError, ErrorCode, ProtocolError, WireError, error_name


def test_the_table_is_the_one_of_another_implementation() -> None:
    theirs = {int(code): code.name.upper() for code in kio.schema.errors.ErrorCode}
    newer = {"GROUP_DELETION_FAILED", "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", "CONTROLLER_ID_NOT_REGISTERED"}
    assert {int(code): code.name for code in ErrorCode if code.name not in newer} == theirs


def test_the_same_codes_may_be_tried_again() -> None:
    theirs = {int(code) for code in kio.schema.errors.ErrorCode if code.retriable}
    assert {int(code) for code in RETRIABLE} == theirs


def test_the_table_of_kafka_4_4() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "NONE"),
        (-1, "UNKNOWN_SERVER_ERROR"),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (ErrorCode.SHARE_SESSION_LIMIT_REACHED, "SHARE_SESSION_LIMIT_REACHED"),
        (9999, "UNKNOWN(9999)"),
        (-2, "UNKNOWN(-2)"),
    ],
)
def test_any_code_has_a_name(code: int, name: str) -> None:
    assert error_name(code) == name


@pytest.mark.parametrize("kind", [ProtocolError, EncodeError])
def test_all_that_the_wire_raises_has_one_family(kind: type[Exception]) -> None:
    assert issubclass(kind, WireError)


def test_the_peers_mistake_is_not_the_callers() -> None:
    assert not issubclass(ProtocolError, EncodeError)
    assert not issubclass(EncodeError, ProtocolError)
