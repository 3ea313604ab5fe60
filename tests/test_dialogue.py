"""The class `Dialogue` of the tests accepts exactly the expected responses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dialogue import CLOSED, SILENCE, Closed, Dialogue, Response, Silence, accepted, answered, each, refused, seq, tagged
from kafkawire.messages.metadata import MetadataRequest
from responses import only
from wirebroker import faults
from wirebroker.mock import MockKafka

pytestmark = pytest.mark.mock_kafka(topics={"orders": 2})
INDEXED = re.compile(r"\.(partition_responses|coordinators|responses\[0\]\.partitions|topics\[0\]\.partitions)\[\d")


def test_a_dialogue_goes_on_as_long_as_the_responses_are_expected(mock_kafka: MockKafka) -> None:
    dialogue = Dialogue(mock_kafka) >> seq(0, 2) >> seq(3) << accepted(at=0) << accepted(at=3) << SILENCE
    dialogue >> seq(5) << refused(45) >> seq(3) << answered(error_code=0, base_offset=3)


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        (accepted(at=1), r"base_offset \[0\], expected \[1\]"),
        (refused(45), r"error_code \[0\], expected \[45\]"),
        (each(error_code=[0, 0]), r"error_code \[0\], expected \[0, 0\]"),
        (SILENCE, "answers ProduceResponse"),
        (CLOSED, "answers ProduceResponse"),
    ],
    ids=["offset", "error", "parts", "silence", "closed"],
)
def test_an_unexpected_response_fails_with_the_dialogue(
    mock_kafka: MockKafka, expected: Response | Silence | Closed, line: str
) -> None:
    dialogue = Dialogue(mock_kafka) >> tagged("v")
    mock_kafka.wait_for_records("orders", 1)
    with pytest.raises(AssertionError, match=f"^client sends Produce v12\nbroker .*{line}"):
        dialogue << (Silence(5) if expected is SILENCE else expected)


def test_silence_and_a_closed_connection_are_not_responses(mock_kafka: MockKafka) -> None:
    dialogue = Dialogue(mock_kafka, within=0.1)
    for expected in (accepted(at=0), CLOSED):
        with pytest.raises(AssertionError, match="broker does not answer$"):
            dialogue << expected
    mock_kafka.faults.add(faults.lose_request(api="Produce"))
    for expected in (accepted(at=0), Silence(5)):
        with pytest.raises(AssertionError, match="broker closes the connection$"):
            dialogue >> tagged("v") << expected


def test_a_response_about_several_partitions_has_no_only_part(mock_kafka: MockKafka) -> None:
    dialogue = Dialogue(mock_kafka) >> MetadataRequest(topics=None) << each(error_code=[0, 0])
    with pytest.raises(AssertionError, match="expected one item"):
        only(dialogue.last)


def test_no_test_counts_its_way_into_a_response() -> None:
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(Path(__file__).parent.rglob("*.py"))
        if path != Path(__file__)
        for line in path.read_text(encoding="utf-8").splitlines()
        if INDEXED.search(line) and "engine" not in line
    ]
    assert found == [], "use responses.only, responses.parts or a dialogue"
