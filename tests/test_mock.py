"""MockKafka and the pytest plugin, as tests use them."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from answers import sole
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.metadata import MetadataRequest
from wirebroker import MockKafka
from wirebroker.core.configs import ConfigError
from wirebroker.net.host import Host
from wirebroker.net.protocol import BrokerProtocol
from wirebroker.wire_client import ConnectionClosed
from wirekit import RawProducer, batch, client, produce_request

pytest_plugins = ["pytester"]


def test_records_have_every_field_of_the_wire() -> None:
    with MockKafka(topics={"orders": 2}) as kafka:
        producer = RawProducer(kafka, partition=1)
        producer.send(0, 2)
        first, *_, last = kafka.records("orders")
        assert (first.partition, first.offset, first.value, first.sequence, first.producer_epoch) == (1, 0, b"v0", 0, 0)
        assert (last.offset, last.sequence, last.producer_id) == (2, 2, producer.pid)
        assert (last.transactional, last.control, last.headers, last.key) == (False, False, (), None)
        assert kafka.records("orders", 0) == []
        with pytest.raises(KeyError):
            kafka.records("nothing")


def test_producers_shows_the_validators_state() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        producer = RawProducer(kafka)
        for first in range(0, 12, 2):
            producer.send(first, first + 1)
        (entry,) = kafka.producers("orders", 0).values()
        assert [(b.first_sequence, b.last_sequence, b.first_offset) for b in entry.batches] == [
            (first, first + 1, first) for first in range(2, 12, 2)
        ]


def test_seed_data_without_a_client() -> None:
    with MockKafka() as kafka:
        assert kafka.produce("orders", key=b"k", value=b"v", headers=[("h", b"x")], timestamp=5) == 0
        assert kafka.produce("orders", value=b"w") == 1
        (first, second) = kafka.records("orders")
        assert (first.key, first.value, first.headers, first.timestamp, first.producer_id) == (
            b"k",
            b"v",
            (("h", b"x"),),
            5,
            -1,
        )
        assert second.timestamp > 1_600_000_000_000


def test_a_connection_that_is_accepted_while_the_broker_is_reset_belongs_to_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = BrokerProtocol.__init__
    with MockKafka() as kafka:

        def accept(self: BrokerProtocol, host: Host, node_id: int, listener: str) -> None:
            made(self, host, node_id, listener)
            host.replace(kafka._engine())

        monkeypatch.setattr(BrokerProtocol, "__init__", accept)
        assert client(kafka).request(ApiVersionsRequest(), 0, timeout=2).error_code == 0


def test_wait_for_records_wakes_up_when_they_come() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        waited: list[int] = []
        waiter = threading.Thread(target=lambda: waited.append(len(kafka.wait_for_records("orders", 3, timeout=10))))
        waiter.start()
        RawProducer(kafka).send(0, 2)
        waiter.join(10)
        assert waited == [3]


def test_wait_for_records_says_how_many_came() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        kafka.produce("orders", value=b"v")
        with pytest.raises(TimeoutError, match="1 of 2 records were stored in 'orders' within 0.01 s"):
            kafka.wait_for_records("orders", 2, timeout=0.01)


def test_reset_closes_the_connections_and_empties_the_broker() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        before = kafka.bootstrap_servers
        producer = RawProducer(kafka)
        producer.send(0)
        kafka.create_topic("more", 2)
        kafka.reset()
        with pytest.raises(ConnectionClosed):
            producer.send(1)
        assert kafka.bootstrap_servers == before
        assert kafka.records("orders") == []
        assert kafka.trace.produce() == []
        topics = client(kafka).request(MetadataRequest(topics=None), 9).topics
        assert [topic.name for topic in topics] == ["orders"]
        assert RawProducer(kafka).pid == 0


def test_restart_keeps_the_address_and_the_records() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        producer = RawProducer(kafka)
        producer.send(0)
        for mode in ("clean", "kill"):
            kafka.restart(mode)
            with pytest.raises(ConnectionClosed):
                producer.send(1)
            assert producer.send(0).base_offset == 0
        assert len(kafka.records("orders")) == 1
        with pytest.raises(ValueError, match="'clean' or 'kill'"):
            kafka.restart("softly")


def test_a_frozen_clock_moves_only_by_advance() -> None:
    with MockKafka(clock="frozen") as kafka:
        now = kafka.clock.now()
        assert kafka.clock.now() == now
        kafka.clock.advance(timedelta(days=8), hours=1)
        assert kafka.clock.now() - now == (8 * 24 + 1) * 3_600_000
        with pytest.raises(ValueError, match="only moves forward"):
            kafka.clock.advance(seconds=-1)


def test_one_seed_makes_ids_repeatable() -> None:
    def topic_id() -> bytes:
        with MockKafka(topics={"orders": 1}, random_seed=5) as kafka:
            found: bytes = sole(client(kafka).request(MetadataRequest(topics=None), 12).topics).topic_id
            return found

    assert topic_id() == topic_id()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"configs": {"num.partitons": 3}}, ConfigError, "num.partitions"),
        ({"profile": "kafka"}, ValueError, "there is no profile 'kafka'"),
        ({"rules": {"window": 0}}, ValueError, "from 1 up"),
        ({"record_checks": "none"}, ValueError, "record_checks: 'none' is not one of full, header"),
        ({"clock": "fast"}, ValueError, "clock: 'fast' is not one of system, frozen"),
        ({"max_versions": {"Prodce": 3}}, ValueError, "no API named 'Prodce'"),
        ({"topics": {"bad/name": 1}}, ValueError, "characters other than"),
        ({"topics": {"orders": 0}}, ValueError, "topics: 'orders' needs at least 1 partition, not 0"),
    ],
)
def test_a_wrong_setting_says_what_is_wrong(settings: dict[str, object], error: type[Exception], message: str) -> None:
    threads = threading.active_count()
    with pytest.raises(error, match=message), MockKafka(**settings):  # type: ignore[arg-type]
        pass
    assert threading.active_count() == threads


def test_max_versions_caps_what_is_offered() -> None:
    with MockKafka(max_versions={"Produce": 8}) as kafka:
        offered = {api.api_key: api.max_version for api in client(kafka).request(ApiVersionsRequest(), 0).api_keys}
        assert offered[0] == 8
        with pytest.raises(ConnectionClosed):
            client(kafka).request(produce_request("orders", batch()), 9)


def test_a_broker_that_is_not_running_says_so() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        MockKafka().records("orders")


def test_async_in_the_callers_loop() -> None:
    async def scenario() -> None:
        async with MockKafka(topics={"orders": 1}) as kafka:
            work = asyncio.to_thread(lambda: RawProducer(kafka).send(0, 4))
            task = asyncio.create_task(work)
            assert len(await kafka.wait_for_records_async("orders", 5)) == 5
            await task
            with pytest.raises(RuntimeError, match="await wait_until_async"):
                kafka.wait_until(lambda: True)
            with pytest.raises(TimeoutError, match="did not come true within 0.01 s"):
                await kafka.wait_until_async(lambda: False, timeout=0.01)
            with pytest.raises(TimeoutError, match="5 of 6 records were stored in 'orders' within 0.01 s"):
                await kafka.wait_for_records_async("orders", 6, timeout=0.01)

    asyncio.run(scenario())


def test_wait_until_notices_a_condition_outside_the_broker() -> None:
    """Nothing happens in the broker between two checks of the condition."""
    with MockKafka() as kafka:
        found = iter([False, True])
        kafka.wait_until(lambda: next(found), timeout=0.5)

    async def scenario() -> None:
        async with MockKafka() as kafka:
            found = iter([False, True])
            await kafka.wait_until_async(lambda: next(found), timeout=0.5)

    asyncio.run(scenario())


def test_many_threads_at_once() -> None:
    with MockKafka(topics={"orders": 4}) as kafka:

        def work(partition: int) -> None:
            producer = RawProducer(kafka, partition=partition)
            for i in range(20):
                assert producer.send(i).base_offset == i
                kafka.records("orders", partition)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(kafka.records("orders")) == 80


def test_it_starts_within_milliseconds() -> None:
    times = []
    for _ in range(20):
        began = time.perf_counter()
        with MockKafka(topics={"orders": 1}):
            times.append(time.perf_counter() - began)
    assert statistics.median(times) < 0.02  # 2 ms on an idle machine; see scripts/bench


def test_importing_wirebroker_does_not_import_the_broker() -> None:
    script = "import sys, wirebroker; sys.exit('asyncio' in sys.modules or 'wirebroker.mock' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# The plugin


def test_the_fixture_gives_each_test_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        seen = []

        def test_one(mock_kafka):
            seen.append(mock_kafka.bootstrap_servers)
            mock_kafka.produce("orders", value=b"x")

        def test_two(mock_kafka):
            assert mock_kafka.bootstrap_servers not in seen
            with pytest.raises(KeyError):
                mock_kafka.records("orders")

        @pytest.mark.mock_kafka(brokers=3, topics={"orders": 6}, profile="textbook")
        def test_marker(mock_kafka):
            assert mock_kafka.bootstrap_servers.count(",") == 2

        def test_factory(mock_kafka_factory):
            assert mock_kafka_factory().bootstrap_servers != mock_kafka_factory(brokers=2).bootstrap_servers
        """
    )
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=4)


def test_the_last_verdicts_join_the_report_of_a_failed_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from kafka import KafkaProducer

        def test_fails(mock_kafka):
            producer = KafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers)
            producer.send("orders", b"x").get(10)
            producer.close()
            assert False
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*wirebroker 1: the last verdicts*", "*orders-0*stored at offset 0*"])


def test_the_fixture_works_with_pytest_asyncio_and_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from aiokafka import AIOKafkaProducer

        @pytest.mark.asyncio
        @pytest.mark.parametrize("n", range(4))
        async def test_async(mock_kafka, n):
            producer = AIOKafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers, enable_idempotence=True)
            await producer.start()
            await producer.send_and_wait("orders", b"x")
            await producer.stop()
            assert len(mock_kafka.records("orders")) == 1
        """
    )
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=4)


def test_a_marker_with_a_position_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.mock_kafka(3)
        def test_x(mock_kafka): ...
        """
    )
    result = pytester.runpytest_subprocess()
    result.stdout.fnmatch_lines(["*takes settings by name*"])


def test_the_trace_by_topic_and_partition(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    kafka = mock_kafka_factory(topics=["orders"])
    RawProducer(kafka).send(0)
    assert [row.verdict for row in kafka.trace.produce("orders", 0)] == ["accepted"]
    assert kafka.trace.produce("other") == []
