"""Open transactions, and the states that their coordinators have for them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from confluent_kafka import Producer

from audit_spark.synthetic import Writer
from requesting import produce_request
from wirebroker import MockKafka
from wirebroker_audit.checks.coordinators import TRANSACTION_TOPIC, Coordinators, Open
from wirebroker_audit.checks.live_coordinators import live_coordinators
from wirebroker_audit.job import audit
from wirebroker_audit.logs.directory import find_partitions
from wirebroker_audit.request import Request
from wirebroker_audit.wire import Client
from wirekit import RawProducer, batch, only

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The transactional id `till 3` has committed one transaction on `orders`, and has a second transaction open."""
    with MockKafka(topics=["orders"], data=tmp_path / "logs") as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "till 3", "log_level": 0})
        producer.init_transactions(20)
        for value in ("first", "second"):
            producer.begin_transaction()
            producer.produce("orders", value)
            producer.flush(20)
            if value == "first":
                producer.commit_transaction(20)
        (written,) = {each.producer_id for each in kafka.records("orders")}
    (tmp_path / "id").write_text(str(written))
    return tmp_path / "logs"


def told(logs: Path, *opened: Open, began_ms: int = 2**60) -> list[tuple[str, dict[str, object]]]:
    coordinators = Coordinators(find_partitions(logs, (TRANSACTION_TOPIC,)), [each.producer_id for each in opened])
    found = [coordinators.about(each, began_ms) for each in opened]
    return [(each.words, json.loads("{" + each.evidence + "}")) for each in found]


def test_what_the_coordinator_says_of_an_open_transaction(logs: Path) -> None:
    producer = int((logs.parent / "id").read_text())
    (owned, evidence), (other, _), (unknown, command) = told(
        logs, Open("orders", 0, producer, 0, 2), Open("payments", 3, producer, 0, 9), Open("orders", 0, 4711, 0, 7)
    )
    assert owned == ". It belongs to 'till 3', and the coordinator aborts it 60 s after its start"
    assert evidence == {"transactional_id": "till 3", "timeout_ms": 60_000}
    assert other.startswith(
        ". It hangs: the coordinator of 'till 3' has no open transaction of this producer on this partition"
    )
    assert unknown.startswith(". It hangs: no coordinator knows a transactional id of producer 4711")
    abort = "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic orders --partition 0 --start-offset 7"
    assert unknown.endswith(abort)
    assert command == {"hangs": True, "abort": abort}
    late = told(logs, Open("orders", 0, producer, 0, 2, open_ms=60_001))[0][0]
    assert late.endswith("aborts it 60 s after its start; that time is over")
    assert "has continued since the log was read" in told(logs, Open("payments", 3, producer, 0, 9), began_ms=0)[0][0]


def test_with_some_of_the_coordinators_partitions_nothing_is_concluded_from_silence(logs: Path) -> None:
    (folder, *_) = sorted(
        each for each in logs.glob(f"{TRANSACTION_TOPIC}-*") if not any(f.stat().st_size for f in each.glob("*.log"))
    )
    shutil.rmtree(folder)
    ((words, evidence),) = told(logs, Open("orders", 0, 4711, 0, 7))
    assert (words, list(evidence)) == ("", ["abort"])


def test_the_report_has_the_command_that_aborts_a_hanging_transaction(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    writer = Writer("payments", 0, random.Random(1))
    writer.data(4711, attributes=16)
    writer.save(logs)
    result = audit(spark, Request(tmp_path / "out", logs))
    assert [(each["kind"], each["topic"]) for each in result.findings] == [
        ("open_transaction", "payments"),
        ("open_transaction", "orders"),
    ]
    hangs, owned = result.findings
    assert "at the end of the log. It belongs to 'till 3'" in owned["explanation"]
    assert [each["severity"] for each in result.findings] == ["certain", "info"]
    assert owned["explanation"].endswith("aborts it 60 s after its start")
    assert hangs["explanation"].endswith("abort --topic payments --partition 0 --start-offset 0")
    assert json.loads(hangs["evidence"])["hangs"] is True


def test_a_live_clusters_coordinators_are_asked(spark: SparkSession, tmp_path: Path) -> None:
    with MockKafka(topics=["orders", "payments"], configs={"transaction.partition.verification.enable": "false"}) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "till 3", "log_level": 0})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("orders", "underway")
        producer.flush(20)
        stray = RawProducer(kafka, "payments")
        data = batch(0, 1, pid=stray.pid, epoch=0, transactional=True)
        assert only(stray.wire.request(produce_request("payments", data, txid="stray"), 9)).error_code == 0
        result = audit(spark, Request(tmp_path / "out", bootstrap=kafka.bootstrap_servers))
        owned, hangs = sorted(result.findings, key=lambda each: str(each["topic"]))
        assert (owned["severity"], hangs["severity"]) == ("info", "certain")
        assert owned["explanation"].endswith("It belongs to 'till 3', and the coordinator aborts it 60 s after its start")
        assert json.loads(hangs["evidence"])["hangs"] is True

        orders = kafka.records("orders")[0]
        opened = [Open("orders", 0, orders.producer_id, 0, 0), Open("payments", 0, stray.pid, 0, 0)]
        producer.commit_transaction(20)
        client = Client(kafka.bootstrap_servers)
        asked: list[str] = []
        with pytest.MonkeyPatch.context() as patched:
            ask = client.ask
            patched.setattr(client, "ask", lambda node, request: asked.append(type(request).__name__) or ask(node, request))
            known = live_coordinators(client, opened, 2**60)
        client.close()
        assert asked.count("DescribeProducersRequest") == 1, "one request for each leader"
        assert [known.about(each, 2**60).severity for each in opened] == ["info", "certain"]
        assert "has ended since" in known.about(opened[0], 2**60).words
