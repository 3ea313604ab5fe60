"""The pytest plugin: its fixtures, its marker, and its part of the report of a failed test."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from wirekit import FEW_PLUGINS

pytest_plugins = ["pytester"]


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

        @pytest.mark.mock_kafka(profile=["kafka-4.3", "kafka-2.3"], topics="orders")
        def test_profiles(mock_kafka, request):
            assert request.node.name == f"test_profiles[{mock_kafka._options.profile}]"
            assert list(mock_kafka.topics()) == ["orders"]

        def test_factory(mock_kafka_factory):
            assert mock_kafka_factory().bootstrap_servers != mock_kafka_factory(brokers=2).bootstrap_servers
        """
    )
    pytester.runpytest_inprocess("--strict-markers").assert_outcomes(passed=6)


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
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*wirebroker 1: the last verdicts*", "*orders-0*stored at offset 0*"])


def test_the_report_names_pictures_that_are_beside_it(pytester: pytest.Pytester) -> None:
    """The plugin writes pictures only into its own folder, even if the test has an odd name. If the test fails again, new
    pictures replace the old ones."""
    pytester.makepyfile(
        """
        import pytest
        from kafka import KafkaProducer
        from wirebroker import MockKafka

        @pytest.mark.parametrize("name", ["../../x/\u00e9 <b>", "plain"])
        def test_fails(mock_kafka, name):
            with MockKafka(topics="other"):
                producer = KafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers, enable_idempotence=True)
                producer.send("orders", b"x").get(10)
                producer.close()
                assert False

        def test_passes(mock_kafka): ...
        """
    )
    for _ in range(2):
        result = pytester.runpytest_inprocess()
        result.assert_outcomes(failed=2, passed=1)
    paths = [Path(line) for line in result.outlines if line.endswith(".svg")]
    folder = pytester.path / ".pytest_cache/d/wirebroker"
    assert sorted(paths) == sorted(folder.iterdir())
    assert sorted({path.name.rpartition("-")[2] for path in paths}) == ["log.svg", "sequence.svg", "windows.svg"]
    assert all(ET.parse(path).getroot().tag.endswith("svg") for path in paths)
    drawn = next(path for path in paths if path.name.endswith("sequence.svg")).read_text(encoding="utf-8")
    assert "Produce orders-0 seq 0 → offset 0" in drawn
    elsewhere = pytester.runpytest_inprocess("--mock-kafka-pictures", "artefacts/pictures", "-p", "no:cacheprovider")
    assert [path.name for path in sorted((pytester.path / "artefacts/pictures").iterdir())] == sorted(
        path.name for path in paths
    )
    elsewhere.stdout.fnmatch_lines(["*wirebroker: pictures*", "artefacts/pictures/*sequence.svg"])
    assert "wirebroker: pictures" not in pytester.runpytest_inprocess("-p", "no:cacheprovider").stdout.str()
    (pytester.path / "file").touch()
    refused = pytester.runpytest_inprocess("--mock-kafka-pictures", "file/pictures", "-p", "no:cacheprovider")
    refused.stdout.fnmatch_lines(["*wirebroker: pictures*", "they cannot be written: file/pictures: Not a directory"])


def test_the_report_has_every_broker_of_the_test_with_its_records(pytester: pytest.Pytester) -> None:
    """The report also includes brokers that have stopped, brokers that fixtures started, and brokers of a test whose fixture
    failed.
    """
    pytester.makepyfile(
        """
        import pytest
        from wirebroker import MockKafka, faults

        def test_before():
            with MockKafka() as kafka:
                kafka.produce("orders", value="of the test before")

        def test_fails():
            with MockKafka() as one, MockKafka() as two:
                one.produce("orders", key="k", value="in one", headers={"h": "x"})
                two.produce("orders", key=bytes([255, 0]), value=None)
                two.faults.add(faults.lose_ack(nth=1))
            assert False

        @pytest.fixture
        def seeded(mock_kafka):
            mock_kafka.produce("orders", value="seed")
            raise OSError("no service")

        def test_fails_in_its_fixture(seeded): ...
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*wirebroker 1: the last records*", "orders-0 *offset 0 *value 'seed'",
            "*wirebroker 1: the last records*", "orders-0 *offset 0 *key 'k'  value 'in one'  h: 'x'",
            "*wirebroker 2: the last records*", "orders-0 *offset 0 *key 2 bytes  value null",
            "*wirebroker 2: its faults*", "# fired 0 of 0: lose_ack(nth=1, then=disconnect)",
        ]
    )  # fmt: skip
    result.stdout.no_fnmatch_line("*of the test before*")


def test_the_report_of_a_broker_whose_data_are_gone_has_the_other_sections(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import shutil
        from requesting import find_coordinator, offset_commit
        from wirebroker import MockKafka
        from wirekit import client

        def test_fails(tmp_path):
            with MockKafka(data=tmp_path / "data") as kafka:
                for value in "ab":
                    kafka.produce("orders", value=value)
                client(kafka).request(find_coordinator("team"), 4)
                client(kafka).request(offset_commit("team", 1), 8)
            shutil.rmtree(tmp_path / "data")
            assert False
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*wirebroker 1: its groups*", "'team' *committed orders-0 at 1"])


def test_the_report_says_which_records_are_committed_aborted_and_open(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from confluent_kafka import Producer

        def test_fails(mock_kafka):
            for name in ("committed", "aborted", "open"):
                producer = Producer({"bootstrap.servers": mock_kafka.bootstrap_servers, "transactional.id": name})
                producer.init_transactions()
                producer.begin_transaction()
                producer.produce("orders", name)
                producer.flush()
                if name != "open":
                    (producer.commit_transaction if name == "committed" else producer.abort_transaction)()
                del producer  # the traceback would keep the client alive, and with it the client's threads
            mock_kafka.produce("orders", value="later")
            assert False
        """
    )
    result = pytester.runpytest_inprocess()
    result.stdout.re_match_lines(
        [
            r".*wirebroker 1: the last records.*",
            r"orders-0 +offset 0 +committed +key null  value 'committed'",
            r"orders-0 +offset 1 +marker +commit of producer \d+",
            r"orders-0 +offset 2 +aborted +key null  value 'aborted'",
            r"orders-0 +offset 3 +marker +abort of producer \d+",
            r"orders-0 +offset 4 +open +key null  value 'open'",
            r"orders-0 +offset 5 +held back +key null  value 'later'",
        ],
        consecutive=True,
    )


def test_the_report_has_groups_rebalances_and_commits(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka import Consumer

        @pytest.fixture(params=["classic", "consumer"])
        def reader(mock_kafka, request):
            made = Consumer({"bootstrap.servers": mock_kafka.bootstrap_servers, "group.id": "team", "client.id": "till",
                             "group.protocol": request.param, "auto.offset.reset": "earliest", "enable.auto.commit": False})
            made.subscribe(["orders"])
            yield made
            made.close()

        @pytest.mark.mock_kafka(topics={"orders": 2})
        def test_fails(mock_kafka, reader):
            for _ in range(2):
                mock_kafka.produce("orders", value="x")
            reader.commit(reader.poll(10), asynchronous=False)
            mock_kafka.wait_for_group("team", members=1)
            assert False
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=2)
    committed, assigned = "*'team' *committed orders-0 at 1", "orders-0, orders-1"
    for generation, history in (
        ("classic, generation 1", [f"*'team' *generation 1: 'till' has {assigned}", committed]),
        ("consumer, generation *", ["*'team' *'till' joined", f"*'team' *a member gets {assigned}", committed]),
    ):
        groups = f"'team' *Stable, {generation}; 'till' has {assigned}; committed orders-0 at 1, 1 behind"
        result.stdout.fnmatch_lines(["*its groups*", groups, "*the last rebalances and commits*", *history])


def test_shared_brokers_keep_their_address_and_are_reset_after_each_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def mock_kafka_settings():
            return {"topics": {"orders": 2}}
        """
    )
    pytester.makepyfile(
        """
        import socket
        import pytest
        from wirebroker import faults

        pytestmark = pytest.mark.mock_kafka(topics="pay", clock="frozen")
        seen = []

        @pytest.fixture(scope="module")
        def service(module_mock_kafka):
            host, _, port = module_mock_kafka.bootstrap_servers.partition(":")
            with socket.create_connection((host, int(port))):
                yield module_mock_kafka.bootstrap_servers

        @pytest.mark.parametrize("turn", range(2))
        def test_of_the_module(service, request, turn):
            kafka = request.getfixturevalue("module_mock_kafka")
            seen.append((service, kafka.clock.now()))
            assert len(set(seen)) == 1, "the address and the time are as before"
            kafka.wait_until(lambda: kafka.connection_count() == 1)
            assert list(kafka.topics()) == ["pay"]
            assert kafka.records("pay") == kafka.faults.rules == []
            kafka.produce("pay", value="x")
            kafka.faults.add(faults.lose_ack(nth=1))
            kafka.clock.advance(days=8)

        @pytest.mark.parametrize("turn", range(2))
        def test_of_the_session(session_mock_kafka, turn):
            assert list(session_mock_kafka.topics()) == ["orders"]
            assert session_mock_kafka.records("orders") == []
            session_mock_kafka.produce("orders", value="x")
            assert session_mock_kafka.bootstrap_servers != seen[0][0]

        def test_the_settings_are_those_of_all_and_of_the_marker(mock_kafka, mock_kafka_factory, request):
            assert list(mock_kafka.topics()) == ["pay"]
            assert list(mock_kafka_factory().topics()) == ["orders"]
            assert mock_kafka_factory(topics=[]).topics() == {}
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=5)


WRONG = """
import pytest
from wirebroker import MockKafka, faults

@pytest.mark.mock_kafka(broker=3)
def test_0(mock_kafka): ...

@pytest.mark.mock_kafka(topics=5)
def test_1(mock_kafka): ...

@pytest.mark.mock_kafka(3)
def test_2(mock_kafka): ...

@pytest.mark.mock_kafka(brokers=3)
def test_3(module_mock_kafka): ...

def test_4():
    MockKafka(topics={"orders": {"partitons": 3}})

def test_5(mock_kafka_factory):
    mock_kafka_factory(configs={"num.partitons": 3})

def test_6(mock_kafka):
    mock_kafka.produce("orders", value=5)

def test_7(mock_kafka):
    mock_kafka.records("nothing")

def test_8(mock_kafka):
    mock_kafka.faults.add(faults.error("NOT_LEEDER"))

def test_9(mock_kafka):
    mock_kafka.wait_for_records("orders", 1, timeout=0.01)

def test_10(mock_kafka):
    mock_kafka.faults.add(faults.lose_ack(nth=1))
    mock_kafka.faults.assert_fired()

def test_11(mock_kafka):
    MockKafka(port=int(mock_kafka.bootstrap_servers.partition(":")[2])).start()

def test_12(mock_kafka):
    mock_kafka.wait_until(lambda: mock_kafka.records("nothing"))
"""
SAID = [
    "*test_wrong.py:4 (test_0): mock_kafka cannot start: MockKafka has no setting 'broker'; did you mean 'brokers'?",
    "*test_wrong.py:7 (test_1): mock_kafka cannot start: topics: give a name, a list*, not 5",
    "*test_wrong.py:10 (test_2): @pytest.mark.mock_kafka takes settings by name, such as brokers=3",
    "*test_wrong.py:13 (test_3): module_mock_kafka is shared, *; put the settings into pytestmark of the module, *",
    '>       MockKafka(topics={"orders": {"partitons": 3}})', "E *no 'partitons'; did you mean 'partitions'?",
    '>       mock_kafka_factory(configs={"num.partitons": 3})', "E *num.partitons; did you mean 'num.partitions'?",
    '>       mock_kafka.produce("orders", value=5)', "E *TypeError: value is bytes, a text, *, not 5*",
    '>       mock_kafka.records("nothing")', "E *there is no topic 'nothing'",
    '>       mock_kafka.faults.add(faults.error("NOT_LEEDER"))', "E *Kafka has no error 'NOT_LEEDER'*",
    '>       mock_kafka.wait_for_records("orders", 1, timeout=0.01)', "E *0 of 1 records were stored in 'orders'*",
    ">       mock_kafka.faults.assert_fired()", "E *the rule lose_ack(nth=1, then=disconnect) did not fire at all*",
    ">       MockKafka(port=*).start()", "E *cannot listen on 127.0.0.1:*",
    '>*mock_kafka.wait_until(lambda: mock_kafka.records("nothing"))', "E *there is no topic 'nothing'",
]  # fmt: skip


def test_an_error_is_shown_at_the_line_of_the_caller(pytester: pytest.Pytester) -> None:
    """The error has a clear message, and the traceback does not show wirebroker's own code."""
    pytester.makepyfile(test_wrong=WRONG)
    result = pytester.runpytest_inprocess("--color=no")
    result.assert_outcomes(failed=9, errors=4)
    result.stdout.fnmatch_lines(SAID)
    for inside in ("*broker/wirebroker/*", "*asyncio/*", "*concurrent/futures*", "*During handling*", "*hidden*"):
        result.stdout.no_fnmatch_line(inside)


@pytest.mark.timeout(300)
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
    pytester.runpytest_subprocess("-n", "2", *FEW_PLUGINS).assert_outcomes(passed=4)


def test_the_marker_loads_faults_and_runs_a_test_with_each_set(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from kafka import KafkaProducer
        from wirebroker import faults
        from wirebroker.faults import NotFired

        lost = faults.lose_ack(api="Produce", nth=1, name="lost")

        def send(kafka):
            producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
            producer.send("orders", b"x").get(10)
            producer.close()

        @pytest.mark.mock_kafka(faults=[lost])
        @pytest.mark.parametrize("turn", range(2))
        def test_a_rule_counts_for_each_broker(mock_kafka, turn):
            send(mock_kafka)
            mock_kafka.faults["lost"].assert_fired(1)
            with pytest.raises(NotFired, match="only copies were added, which are in kafka.faults.rules"): lost.assert_fired()
            with pytest.raises(KeyError, match="no loaded rule has the name 'lots'; did you mean 'lost'"):
                mock_kafka.faults["lots"]
            mock_kafka.reset()
            assert [rule.seen for rule in mock_kafka.faults.rules] == [0]
            mock_kafka.faults.clear()
            mock_kafka.reset(soft=True)
            assert mock_kafka.faults["lost"].seen == 0

        @pytest.mark.mock_kafka(faults={"lost": [lost], "slow": [faults.delay(1, api="Produce")]}, topics="orders")
        def test_each_set(mock_kafka, request):
            assert request.node.name in ("test_each_set[lost]", "test_each_set[slow]")
            send(mock_kafka)
            mock_kafka.faults.assert_fired()
            assert len(mock_kafka.records("orders")) == 1

        @pytest.mark.mock_kafka(faults=[[], [lost]], profile=["kafka-4.3", "kafka-2.3"])
        def test_each_set_with_each_profile(mock_kafka, request):
            assert len(mock_kafka.faults.rules) == ("lose_ack" in request.node.name)

        @pytest.mark.mock_kafka(faults=["lose_ack"])
        def test_wrong(mock_kafka): ...
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=8, errors=1)
    result.stdout.fnmatch_lines(["*mock_kafka cannot start: add a rule such as faults.lose_ack(topic='orders'), not*"])


def test_each_example_of_hypothesis_gets_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from hypothesis import HealthCheck, given, settings, strategies as st

        seen = []

        @settings(max_examples=20, deadline=None)
        @given(values=st.lists(st.binary(max_size=5), max_size=3))
        @pytest.mark.mock_kafka(topics="orders")
        @pytest.mark.parametrize("turn", range(2))
        def test_examples(mock_kafka, turn, values):
            seen.append(mock_kafka)  # not its port, which the system may give twice
            for value in values:
                mock_kafka.produce("orders", value=value)
            assert [record.value for record in mock_kafka.records("orders")] == values

        def test_none_shared_its_broker():
            assert len({id(each) for each in seen}) == len(seen) >= 40

        class TestInAClass:
            @given(number=st.integers(0, 9))
            def test_fails(self, mock_kafka, number):
                mock_kafka.produce("orders", value=f"the number {number}")
                assert number < 7

        @pytest.mark.asyncio
        @settings(max_examples=5, deadline=None)
        @given(value=st.binary(max_size=5))
        async def test_async(mock_kafka, value):
            mock_kafka.produce("orders", value=value)
            assert len(await mock_kafka.wait_for_records_async("orders", 1)) == 1

        @given(number=st.integers(0, 9))
        def test_another_fixture_is_still_refused(mock_kafka, tmp_path, number): ...
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["*wirebroker 1: the last records*", "*value 'the number 7'*", "*function-scoped fixture*"])
