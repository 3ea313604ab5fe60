"""The broker of a scenario, for `scenario run` and for `serve --scenario`."""

from __future__ import annotations

from typing import Any, cast

from kafkawire.declare import Message
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wirebroker import faults
from wirebroker.core.profile import ProfileName
from wirebroker.core.transactions.transaction import Transaction
from wirebroker.engine.engine import Engine
from wirebroker.faults.rules import Rule
from wirebroker.mock import MockKafka
from wirebroker.requests.facts import Facts
from wirebroker_tools.scenarios.scenario import RESULTS, TOPIC, Part


def broker(part: Part, **more: Any) -> MockKafka:
    """Returns the broker of a part. The broker is not started yet, and the part's faults are not loaded."""
    said = part.broker
    profile = cast(ProfileName, said.profile)
    return MockKafka(brokers=said.brokers, topics=topics(part), profile=profile, rules=said.rules, configs=said.configs, **more)


def topics(part: Part) -> dict[str, int]:
    """Returns the topics that a part needs, each with its number of partitions."""
    return {TOPIC: part.broker.partitions} | ({RESULTS: 1} if any("process" in step for step in part.steps) else {})


def bring_about(part: Part, engine: Engine, now: int) -> list[Rule]:
    """Bring the broker into the state in which the part begins. Loads the part's faults and returns them."""
    epoch, transactional_id = part.broker.producer_epoch, part.producer.transactional_id
    if epoch and transactional_id is None:
        engine.plan.add(_begin_at(epoch, engine))
    elif epoch and transactional_id is not None:
        producer_id = engine.cluster.producer_ids.allocate(next(iter(engine.cluster.brokers)))
        held = Transaction(transactional_id, producer_id, part.producer.transaction_timeout, now, producer_epoch=epoch)
        engine.transactions.transactions[transactional_id] = held
    return [engine.plan.add(rule) for rule in part.rules()]


def _begin_at(epoch: int, engine: Engine) -> Rule:
    """Returns a fault rule that answers the first InitProducerId with this epoch. From then on, the producer itself raises the
    epoch.
    """

    def response(facts: Facts, request: Message) -> Message | None:
        assert isinstance(request, InitProducerIdRequest)
        if request.transactional_id is not None:
            return None
        producer_id = engine.cluster.producer_ids.allocate(facts.node)
        return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=epoch)

    return faults.answer(response, api="InitProducerId", nth=1, name="epoch")
