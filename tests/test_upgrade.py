"""A rolling upgrade: brokers of two releases in one cluster, features that are finalized after the upgrade, and downgrades.

The announced and refused versions are from Kafka 3.9.2 and 4.3.1. These releases ran one after the other on the same data
directory, and together in a cluster.
"""

from __future__ import annotations

import asyncio
import math
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controlkit import ControlClient
from dialogue import CLOSED, Dialogue
from inprocess import InProcess
from kafkawire.batches import Record, build_batch
from kafkawire.disk.damage import DataError
from kafkawire.errors import ErrorCode
from requesting import plain, produce_request
from responses import only
from wirebroker import MockKafka, faults
from wirebroker.client.wire import Connection, ConnectionClosed, address_of
from wirebroker.commands.cli import build_parser
from wirebroker.commands.upgrading import upgrade_later
from wirebroker.faults.forms import FaultError
from wirebroker.net.host import Host

OLD, NEW = "kafka-3.9", "kafka-4.3"
SERVE = [sys.executable, "-m", "wirebroker.commands.cli", "serve"]


def begun(kafka: MockKafka) -> None:
    """Wait until an upgrade is in progress."""
    kafka.wait_until(lambda: kafka._call(lambda engine: engine.upgrading is not None), timeout=10)


def ask(kafka: MockKafka, api: str, version: int, node: int = 1, **fields: Any) -> Any:
    with closing(Connection(address_of(kafka.bootstrap_servers.split(",")[node - 1]))) as connection:
        return connection.request(plain(api, **fields), version)


def announced(kafka: MockKafka, node: int = 1) -> tuple[int, Mapping[str, int], Mapping[str, int]]:
    """Returns three values: a broker's newest version of Produce, the newest level of each feature, and the finalized
    levels.
    """
    response = ask(kafka, "ApiVersions", 3, node, client_software_name="a", client_software_version="1")
    newest = next(each.max_version for each in response.api_keys if each.api_key == 0)
    supported = {each.name: each.max_version for each in response.supported_features}
    return newest, supported, {each.name: each.max_version_level for each in response.finalized_features}


def releases(kafka: MockKafka) -> list[str]:
    return [each.release for each in kafka.brokers().values()]


def store(kafka: MockKafka, value: bytes = b"tea") -> None:
    kafka.produce("orders", value=value)


def values(kafka: MockKafka) -> list[bytes | None]:
    return [record.value for record in kafka.records("orders")]


def update(kafka: MockKafka, name: str, level: int) -> tuple[int, str | None]:
    change = {"feature": name, "max_version_level": level, "upgrade_type": 1}
    response = ask(kafka, "UpdateFeatures", 1, feature_updates=[change])
    refused = [each for each in response.results if each.error_code]  # only controllers before 4.0 have errors here
    told = refused[0] if refused else response
    return told.error_code, told.error_message


# Two releases at the same time


def test_each_broker_has_the_versions_and_features_of_its_release() -> None:
    with MockKafka(brokers=3, profile=OLD, topics="orders:1:rf=3") as kafka:
        store(kafka)
        kafka.upgrade(NEW, node_id=2)
        assert releases(kafka) == ["3.9", "4.3", "3.9"]
        assert announced(kafka, 1) == (11, {"metadata.version": 21}, {"metadata.version": 21})
        newest, supported, finalized = announced(kafka, 2)
        assert (newest, supported["metadata.version"], finalized) == (13, 30, {"metadata.version": 21})
        assert ask(kafka, "Metadata", 13, 2, topics=None).topics
        with pytest.raises(ConnectionClosed):
            ask(kafka, "Metadata", 13, 1, topics=None)
        assert update(kafka, "metadata.version", 30) == (
            ErrorCode.INVALID_UPDATE_VERSION,
            "Invalid update version 30 for feature metadata.version. Local controller 1 only supports versions 1-21",
        )
        kafka.upgrade(NEW)
        assert releases(kafka) == ["4.3", "4.3", "4.3"]
        assert announced(kafka)[2]["metadata.version"] == 30
        assert values(kafka) == [b"tea"]


@pytest.mark.parametrize("is_up", [True, False])
def test_a_broker_of_the_old_release_holds_features_back(is_up: bool) -> None:
    with MockKafka(brokers=2, profile=OLD) as kafka:
        kafka.upgrade(NEW, node_id=1)
        if not is_up:  # as in a rolling upgrade, while the broker is restarted
            kafka.kill_broker(2)
        code, message = update(kafka, "group.version", 1)
        assert (code, (message or "").rpartition(". ")[2]) == (95, "Broker 2 does not support this feature.")
        code, message = update(kafka, "metadata.version", 30)
        assert (code, (message or "").rpartition(". ")[2]) == (95, "Broker 2 only supports versions 1-21")


def test_the_cluster_behaves_as_before_until_the_last_broker_runs_the_release() -> None:
    settings = {"min.insync.replicas": 2}
    with MockKafka(brokers=2, profile="kafka-2.8", topics="orders", configs=settings) as kafka:
        data = build_batch([Record(0, 0, None, b"tea")])

        def code() -> int:
            with closing(Connection(address_of(kafka.bootstrap_servers))) as connection:
                response = connection.request(produce_request("orders", data), 8)
            return int(only(response).error_code)

        assert code() == ErrorCode.NOT_ENOUGH_REPLICAS
        kafka.upgrade(NEW, node_id=1)
        assert code() == ErrorCode.NOT_ENOUGH_REPLICAS
        kafka.upgrade(NEW, node_id=2)
        assert code() == ErrorCode.NONE, "from 3.7 on, one in-sync replica is enough for a topic with one replica (KIP-966)"


def test_the_defaults_of_settings_are_those_of_the_release() -> None:
    with MockKafka(profile=OLD, topics="orders", rules={"window": 3}) as kafka:
        assert "log.message.format.version" in described(kafka)
        kafka.upgrade(NEW)
        assert "log.message.format.version" not in described(kafka)
        assert kafka._call(lambda engine: engine.cluster.partition("orders", 0).rules.window) == 3, (
            "the upgrade keeps a rule that the user set"
        )


def described(kafka: MockKafka) -> set[str]:
    response = ask(kafka, "DescribeConfigs", 4, resources=[{"resource_type": 4, "resource_name": "1"}])
    return {each.name for each in response.results[0].configs}


def test_a_topic_may_keep_a_setting_that_the_release_does_not_have(tmp_path: Path) -> None:
    """The expected responses are from Kafka 4.3.1 with a data directory of 3.9.2."""
    orders = {"orders": {"partitions": 1, "configs": {"message.format.version": "2.8-IV1"}}}
    change = {"name": "retention.ms", "config_operation": 0, "value": "2000000"}
    alter = [{"resource_type": 2, "resource_name": "orders", "configs": [change]}]
    with MockKafka(data=tmp_path, profile=OLD, topics=orders) as kafka:
        kafka.upgrade(NEW)
        assert ask(kafka, "IncrementalAlterConfigs", 1, resources=alter).responses[0].error_code == 0
    with MockKafka(data=tmp_path, profile=NEW) as kafka:
        resource = {"resource_type": 2, "resource_name": "orders"}
        shown = ask(kafka, "DescribeConfigs", 4, resources=[resource]).results[0].configs
        assert [(each.name, each.value) for each in shown if each.config_source == 1] == [("retention.ms", "2000000")]


# Features and downgrades


def test_a_setting_that_the_new_release_refuses_cannot_be_described() -> None:
    with MockKafka(profile=OLD) as kafka:
        metrics = {"resource_type": 16, "resource_name": "s", "configs": [{"name": "metrics", "value": ","}]}
        assert only(ask(kafka, "AlterConfigs", 2, resources=[metrics])).error_code == 0
        kafka.upgrade(NEW)
        (told,) = ask(kafka, "DescribeConfigs", 4, resources=[{"resource_type": 16, "resource_name": "s"}]).results
        assert (told.error_code, told.error_message, told.configs) == (ErrorCode.UNKNOWN_SERVER_ERROR, None, [])


def test_features_wait_until_somebody_finalizes_them() -> None:
    heartbeat = {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["orders"]}
    with MockKafka(profile=OLD, topics="orders") as kafka:
        kafka.upgrade(NEW, finalize=False)
        assert announced(kafka)[2] == {"metadata.version": 21}
        assert ask(kafka, "ConsumerGroupHeartbeat", 0, **heartbeat).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert update(kafka, "group.version", 1) == (0, None)
        assert ask(kafka, "ConsumerGroupHeartbeat", 0, **heartbeat).error_code != ErrorCode.UNSUPPORTED_VERSION
        kafka.upgrade(NEW)
        assert announced(kafka)[2]["transaction.version"] == 2


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_way_back_is_open_until_features_are_finalized(brokers: int) -> None:
    with MockKafka(brokers=brokers, profile=OLD, topics=f"orders:1:rf={brokers}") as kafka:
        store(kafka)
        kafka.upgrade(NEW, finalize=False)
        store(kafka)
        kafka.upgrade(OLD)
        assert announced(kafka) == (11, {"metadata.version": 21}, {"metadata.version": 21})
        kafka.upgrade(NEW)
        with pytest.raises(ValueError, match="metadata.version is at level 30, and this release supports levels 1 to 21"):
            kafka.upgrade(OLD)
        with pytest.raises(ValueError, match="metadata.version is at level 30, and this release does not have it"):
            kafka.upgrade("kafka-2.8")
        assert releases(kafka) == ["4.3"] * brokers
        assert values(kafka) == [b"tea", b"tea"]


def test_what_cannot_be_upgraded() -> None:
    with MockKafka(clock="frozen", brokers=2, profile=OLD) as kafka:
        to: Any
        for to, advice in ("kafka-9.9", "the nearest is kafka-4.4"), ("3.9", "did you mean 'kafka-3.9'"), (None, "not None"):
            with pytest.raises(ValueError, match=advice):
                kafka.upgrade(to)
        node: Any
        for node in (7, "1", [1]):
            with pytest.raises(ValueError, match=re.escape(f"there is no broker {node!r}; there are [1, 2]")):
                kafka.upgrade(NEW, node_id=node)
        pause: Any
        for pause in (-1, "1", math.nan, math.inf):
            with pytest.raises(ValueError, match=f"a pause must be a number of seconds of at least 0, not {pause!r}"):
                kafka.upgrade(NEW, pause=pause)
        kafka.upgrade(NEW, pause=1)
        with pytest.raises(ValueError, match="an upgrade to kafka-4.3 is in progress"):
            kafka.upgrade("kafka-4.4")
        with pytest.raises(RuntimeError, match="an upgrade to kafka-4.3 is in progress"):
            kafka.snapshot()
    with MockKafka(profile="pulsar") as kafka, pytest.raises(ValueError, match="'pulsar' is not a release of Kafka"):
        kafka.upgrade(NEW)


# Pauses, restarts and resets


def test_a_pause_is_of_the_brokers_clock() -> None:
    with MockKafka(clock="frozen", brokers=2, profile=OLD, trace="changes") as kafka:
        seen = []
        kafka.upgrade(NEW, pause=5)
        for _ in range(4):
            seen.append([(each.alive, each.release) for each in kafka.brokers().values()])
            kafka.clock.advance(seconds=5)
        up, down, new = (True, "3.9"), (False, "3.9"), (True, "4.3")
        assert seen == [[down, up], [new, up], [new, down], [new, new]]
        assert [(row.node, row.former, row.release) for row in kafka.trace.events("upgrade")] == [
            (1, "3.9", "4.3"), (2, "3.9", "4.3"),
        ]  # fmt: skip
        assert [row.change for row in kafka.trace.events("broker")] == ["stopped", "started"] * 2


@pytest.mark.parametrize("mishap", ["restart", "kill", "start"])
def test_an_upgrade_goes_on_after_a_mishap(mishap: str) -> None:
    with MockKafka(clock="frozen", brokers=3, profile=OLD) as kafka:
        kafka.upgrade(NEW, pause=1)
        kafka.restart() if mishap == "restart" else kafka.kill_broker(2) if mishap == "kill" else kafka.start_broker(1)
        kafka.clock.advance(seconds=10)
        assert [(each.alive, each.release) for each in kafka.brokers().values()] == [
            (True, "4.3"), (mishap != "kill", "4.3"), (True, "4.3"),
        ]  # fmt: skip
        assert announced(kafka)[2]["metadata.version"] == 30


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_killed_broker_stays_down(brokers: int) -> None:
    with MockKafka(brokers=brokers, profile=OLD) as kafka:
        kafka.kill_broker(brokers)
        kafka.upgrade(NEW)
        assert [each.alive for each in kafka.brokers().values()] == [True] * (brokers - 1) + [False]
        kafka.start_broker(brokers)
        newest, _, levels = announced(kafka, brokers)
        assert (newest, levels["metadata.version"]) == (13, 30), "it starts with the new release"


def test_a_reset_and_a_snapshot_bring_the_release_back() -> None:
    with MockKafka(profile=OLD, topics="orders") as kafka:
        before = kafka.snapshot()
        kafka.upgrade(NEW)
        after = kafka.snapshot()
        kafka.restore(before)
        assert announced(kafka) == (11, {"metadata.version": 21}, {"metadata.version": 21})
        kafka.restore(after)
        assert (releases(kafka), announced(kafka)[2]["metadata.version"]) == (["4.3"], 30)
        assert "log.message.format.version" not in described(kafka)
        kafka.reset(soft=True)
        assert releases(kafka) == ["4.3"], "a soft reset keeps the release, because it keeps connections"
        kafka.reset()
        assert announced(kafka) == (11, {"metadata.version": 21}, {"metadata.version": 21})


@pytest.mark.parametrize("kind", ["reset", "restore", "stop"])
def test_a_caller_learns_that_its_upgrade_was_cut_off(kind: str) -> None:
    with MockKafka(brokers=2, profile=OLD) as kafka, ThreadPoolExecutor(1) as pool:
        snapshot = kafka.snapshot()
        upgrade = pool.submit(kafka.upgrade, NEW, pause=60)
        begun(kafka)
        deeds: dict[str, Callable[[], None]] = {
            "reset": kafka.reset, "restore": lambda: kafka.restore(snapshot), "stop": kafka.stop,
        }  # fmt: skip
        deeds[kind]()
        cut_off = "not running" if kind == "stop" else f"the upgrade to {NEW} was cut off, because the broker was reset"
        with pytest.raises(RuntimeError, match=cut_off):
            upgrade.result(10)


@pytest.mark.parametrize("kind", ["reset", "restore"])
def test_the_control_tells_that_an_upgrade_was_cut_off(kind: str) -> None:
    with MockKafka(brokers=2, profile=OLD, control=True) as kafka, ThreadPoolExecutor(1) as pool:
        control = ControlClient(kafka.control_url)
        snapshot = control.ask("POST", "/snapshots")["id"]
        refusal = pool.submit(control.refused, "POST", "/upgrade", {"to": NEW, "pause": 60})
        begun(kafka)
        control.ask("POST", "/reset" if kind == "reset" else f"/snapshots/{snapshot}/restore")
        problem = refusal.result(10)
        assert (problem["status"], f"the upgrade to {NEW} was cut off" in problem["detail"]) == (409, True)
        assert releases(kafka) == ["3.9", "3.9"]


def test_a_soft_reset_does_not_cut_an_upgrade_off() -> None:
    with MockKafka(brokers=2, profile=OLD) as kafka, ThreadPoolExecutor(1) as pool:
        upgrade = pool.submit(kafka.upgrade, NEW, pause=60)
        begun(kafka)
        kafka.reset(soft=True)
        for _ in range(4):
            kafka.clock.advance(minutes=1)
        upgrade.result(10)
        assert releases(kafka) == ["4.3", "4.3"]


def test_serve_does_not_say_that_an_upgrade_is_complete_if_it_was_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    options = build_parser().parse_args(["serve", "--upgrade-to", NEW, "--upgrade-after", "0.01", "--upgrade-pause", "60"])
    told: list[str] = []

    async def work(host: Host) -> None:
        task = upgrade_later(options, host, told.append)
        assert task is not None
        await host.wait_until(lambda: host.engine.upgrading is not None, 10)
        kafka.reset()
        await asyncio.wait_for(task, 10)

    with MockKafka(brokers=2, profile=OLD) as kafka:
        assert kafka._loop is not None
        asyncio.run_coroutine_threadsafe(work(kafka._running), kafka._loop).result(20)
    assert told == []
    assert f"the upgrade to {NEW} was cut off" in caplog.text


def test_the_form_for_async_code() -> None:
    async def work() -> list[str]:
        async with MockKafka(brokers=2, profile=OLD) as kafka:
            with pytest.raises(RuntimeError, match="upgrade_async"):
                kafka.upgrade(NEW, pause=0.01)
            await kafka.upgrade_async(NEW, pause=0.01)
            return releases(kafka)

    assert asyncio.run(work()) == ["4.3", "4.3"]


# A data directory


def test_a_directory_keeps_the_levels_and_refuses_an_older_release(tmp_path: Path) -> None:
    with MockKafka(data=tmp_path, brokers=2, profile=OLD, topics="orders:1:rf=2") as kafka:
        store(kafka)
    with MockKafka(data=tmp_path, brokers=2, profile=NEW) as kafka:
        assert announced(kafka)[2] == {"metadata.version": 21}
        kafka.upgrade("kafka-4.4")
        store(kafka)
        assert announced(kafka)[2]["metadata.version"] == 33
    for release in (OLD, NEW):
        with pytest.raises(DataError, match=f"{release} cannot serve this directory: the cluster's metadata.version"):
            MockKafka(data=tmp_path, brokers=2, profile=release).start()
    with MockKafka(data=tmp_path, brokers=2, profile="kafka-4.4") as kafka:
        assert values(kafka) == [b"tea", b"tea"]


# Faults and HTTP


def test_a_fault_upgrades_at_a_chosen_request() -> None:
    with MockKafka(brokers=2, profile=OLD, topics="orders") as kafka:
        rule = kafka.faults.add(faults.upgrade(NEW, api="Metadata", nth=2))
        assert ask(kafka, "Metadata", 12, topics=None).topics
        with pytest.raises(ConnectionClosed):
            ask(kafka, "Metadata", 12, topics=None)
        assert (rule.fired, releases(kafka)) == (1, ["4.3", "4.3"])
        again = kafka.faults.add(faults.upgrade(NEW, api="Metadata"))
        assert ask(kafka, "Metadata", 12, topics=None).topics
        assert again.fired == 0, "there is nothing to upgrade"
        with pytest.raises(FaultError, match="upgrade: the brokers cannot start with kafka-2.8: the cluster's"):
            kafka.faults.add(faults.upgrade("kafka-2.8", api="Metadata"))
        with pytest.raises(FaultError, match="disconnect: there is no node 9; there is 1, 2"):
            kafka.faults.add(faults.disconnect(api="Metadata", node=9))
    with pytest.raises(FaultError, match="upgrade: wirebroker has no profile of Kafka 4.33; the nearest is kafka-4.4"):
        faults.upgrade("kafka-4.33")


def test_a_fault_begins_with_the_broker_that_it_strikes() -> None:
    with MockKafka(clock="frozen", brokers=3, profile=OLD, trace="changes") as kafka:
        kafka.faults.add(faults.upgrade(NEW, 100, api="Metadata", nth=1))
        with pytest.raises(ConnectionClosed):
            ask(kafka, "Metadata", 12, 2, topics=None)
        kafka.clock.advance(seconds=1)
        assert [row.node for row in kafka.trace.events("upgrade")] == [2, 3, 1]


@pytest.mark.parametrize(("brokers", "ms"), [(1, 0), (3, 500)], ids=["at once", "by a timer"])
def test_a_disk_that_refuses_the_feature_levels_is_told(brokers: int, ms: int, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("the disk is full")

    broker = InProcess(profile="kafka-4.2", brokers=brokers)
    broker.engine.cluster.decisions.write_with(refuse)
    before = dict(broker.engine.configs.features)
    broker.engine.plan.add(faults.upgrade(NEW, ms=ms, api="Metadata", nth=1))
    Dialogue(broker) >> plain("Metadata", topics=[]) << CLOSED
    broker.clock.advance(seconds=10)
    assert {each.release.name for each in broker.engine.cluster.brokers.values()} == {NEW.removeprefix("kafka-")}
    assert broker.engine.configs.features == before
    assert any("the feature levels stay as they were: the disk is full" in message for message in caplog.messages)


@pytest.mark.parametrize("pause", [0, 0.01])
def test_a_caller_learns_that_the_disk_refuses_the_feature_levels(pause: float) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("the disk is full")

    with MockKafka(brokers=2, profile="kafka-4.2", control=True) as kafka:
        kafka._call(lambda engine: engine.cluster.decisions.write_with(refuse))
        with pytest.raises(OSError, match="the disk is full"):
            kafka.upgrade(NEW, pause=pause)
        problem = ControlClient(kafka.control_url).refused("POST", "/upgrade", {"to": "kafka-4.4", "pause": pause})
        assert (problem["status"], problem["detail"]) == (503, "the data directory cannot be used: the disk is full")
        assert releases(kafka) == ["4.4", "4.4"]


def test_over_http() -> None:
    with MockKafka(brokers=2, profile=OLD, control=True) as kafka:
        control = ControlClient(kafka.control_url)
        body = control.ask("POST", "/upgrade", {"to": NEW, "node_id": 2, "pause": 0.01})
        assert [each["release"] for each in body["brokers"]] == ["3.9", "4.3"]
        body = control.ask("POST", "/upgrade", {"to": NEW, "finalize": False})
        assert [each["release"] for each in body["brokers"]] == ["4.3", "4.3"]
        assert announced(kafka)[2] == {"metadata.version": 21}
        body = control.refused("POST", "/upgrade", {"to": "kafka-4.3.1"})
        assert (body["status"], body["detail"]) == (422, "there is no profile 'kafka-4.3.1'; did you mean 'kafka-4.3'?")
        kafka.upgrade(NEW)
        body = control.refused("POST", "/upgrade", {"to": OLD})
        assert (body["status"], "metadata.version is at level 30" in body["detail"]) == (409, True)


# serve


def test_serve_begins_on_a_signal() -> None:
    flags = ["--brokers", "2", "--port", "0", "--profile", OLD, "--upgrade-to", NEW, "--no-finalize"]
    with subprocess.Popen([*SERVE, *flags], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line == "ready\n":
                process.send_signal(signal.SIGUSR1)
            if line == f"upgraded to {NEW}\n":
                address = lines[0].split()[2]
                with closing(Connection(address_of(address))) as connection:
                    request = plain("ApiVersions", client_software_name="a", client_software_version="1")
                    levels = {each.name: each.max_version_level for each in connection.request(request, 3).finalized_features}
                process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert lines[3:] == ["broker 1 runs Kafka 4.3", "broker 2 runs Kafka 4.3", f"upgraded to {NEW}"]
    assert levels == {"metadata.version": 21}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--upgrade-to", "4.3"], "--upgrade-to: there is no profile '4.3'; did you mean 'kafka-4.3'?"),
        (["--upgrade-to", OLD], f"--upgrade-to: the brokers cannot start with {OLD}: the cluster's metadata.version is"),
        (["--profile", "textbook", "--upgrade-to", NEW], "--upgrade-to: the profile 'textbook' is not a release of Kafka"),
        (["--upgrade-after", "5"], "--upgrade-after does nothing without --upgrade-to"),
        (["--no-finalize"], "--no-finalize does nothing without --upgrade-to"),
    ],
)
def test_serve_refuses_flags(flags: list[str], sentence: str) -> None:
    run = subprocess.run([*SERVE, "--port", "0", *flags], capture_output=True, text=True, check=False, timeout=20)
    assert run.returncode == 2
    assert sentence in run.stderr
