"""Brokers that are unregistered, and voters that cannot be added or removed: the answers of a real Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.declare import from_plain
from kafkawire.registry import KEYS, request_class
from wirebroker import MockKafka
from wirekit import client

VOTER: dict[str, Any] = {"cluster_id": None, "voter_id": 5, "voter_directory_id": bytes(15) + b"\7"}
ADDED: dict[str, Any] = VOTER | {"timeout_ms": 1000, "listeners": [{"name": "controller", "host": "h", "port": 9}]}
ELSEWHERE = [{"name": "X", "host": "h", "port": 9}]
STATIC = "Cluster doesn't support {}ing voter because the kraft.version feature is 0"
NO_VOTER = "{} voter request didn't include a valid voter"
NO_ENDPOINT = "Add voter request didn't include the endpoint (Endpoints(endpoints={%s})) for the default listener"


def ask(kafka: MockKafka, api: str, fields: dict[str, Any]) -> tuple[int, str]:
    answer = client(kafka).request(from_plain(request_class(KEYS[api]), fields), 0)
    return answer.error_code, answer.error_message


@pytest.mark.parametrize(("api", "fields"), [("AddRaftVoter", ADDED), ("RemoveRaftVoter", VOTER)])
def test_the_quorum_is_static(mock_kafka: MockKafka, api: str, fields: dict[str, Any]) -> None:
    verb = "add" if api == "AddRaftVoter" else "remov"
    own = mock_kafka._call(lambda engine: engine.cluster.cluster_id)
    assert ask(mock_kafka, api, fields) == (35, STATIC.format(verb))
    assert ask(mock_kafka, api, fields | {"cluster_id": own}) == (35, STATIC.format(verb))
    wrong = (104, f'The given id "x" doesn\'t match the cluster id "{own}"')
    assert ask(mock_kafka, api, fields | {"cluster_id": "x", "voter_id": -1}) == wrong
    invalid = (42, NO_VOTER.format("Add" if verb == "add" else "Remove"))
    assert ask(mock_kafka, api, fields | {"voter_id": -1}) == invalid
    assert ask(mock_kafka, api, fields | {"voter_directory_id": bytes(16)}) == invalid


@pytest.mark.parametrize(("listeners", "shown"), [([], ""), (ELSEWHERE, "ListenerName(X)=h/<unresolved>:9")])
def test_a_voter_needs_the_address_of_its_controller(mock_kafka: MockKafka, listeners: list[Any], shown: str) -> None:
    text = f"{NO_ENDPOINT % shown} ListenerName(CONTROLLER)"
    assert ask(mock_kafka, "AddRaftVoter", ADDED | {"listeners": listeners}) == (42, text)


def test_a_broker_is_unregistered_until_it_starts() -> None:
    with MockKafka(brokers=2) as kafka:
        assert ask(kafka, "UnregisterBroker", {"broker_id": 9}) == (102, "Broker ID 9 is not currently registered")
        kafka.kill_broker(2)
        assert ask(kafka, "UnregisterBroker", {"broker_id": 2}) == (0, "")
        assert ask(kafka, "UnregisterBroker", {"broker_id": 2}) == (102, "Broker ID 2 is not currently registered")
        kafka.start_broker(2)
        assert ask(kafka, "UnregisterBroker", {"broker_id": 2}) == (0, "")
