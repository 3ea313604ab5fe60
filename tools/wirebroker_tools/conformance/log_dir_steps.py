"""The steps of scenarios about a broker with several log directories. A step names a directory by its number in `log.dirs`."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from wirebroker_tools.conformance.readiness import WITHIN, until
from wirebroker_tools.conformance.recording import Json
from wirebroker_tools.conformance.run import Run
from wirebroker_tools.conformance.steps import shown

TELLS_CORDONED = ("DescribeLogDirs", 5)
"""The first version whose response marks cordoned directories (KIP-1066)."""


def _described(run: Run, step: Json, version: int = 5) -> Any:
    topics = step.get("topics")
    if topics is not None:
        topics = [{"topic": run.topic({"topic": name}), "partitions": indexes} for name, indexes in topics]
    return run.ask("DescribeLogDirs", step, version, topics=topics)


def _path(run: Run, name: int | str) -> str:
    """Returns the path of a directory. A number selects one of the broker's directories. A text that begins with a slash is the
    path itself; any other text is appended to the first directory's path.
    """
    paths = [each.log_dir for each in _described(run, {"topics": []}).results]
    if isinstance(name, int):
        return str(paths[name])
    return name if name.startswith("/") else f"{paths[0]}{name}"


def _log_dirs(run: Run, step: Json) -> Json:
    """Send DescribeLogDirs. Returns the replicas of the step's topics in each directory, sorted by topic and partition."""
    names = {run.topic({"topic": name}): name for name in step["of"]}
    response = _described(run, step)
    dirs = []
    for each in response.results:
        held = [
            [names[topic.name], part.partition_index, part.partition_size, part.offset_lag, part.is_future_key]
            for topic in each.topics
            if topic.name in names
            for part in topic.partitions
        ]
        dirs.append({"error": shown(each.error_code), "held": sorted(held), "cordoned": each.is_cordoned})
    return {"error": shown(response.error_code), "dirs": dirs}


def _move_logs(run: Run, step: Json) -> Json:
    """Send AlterReplicaLogDirs, and wait until no replica of the step's topics is moving any more.

    Raises TimeoutError if a replica still moves after WITHIN seconds. In Kafka 3.7 and 3.8 the thread that moves replicas may
    end with a NullPointerException (ReplicaAlterLogDirsThread.PromotionState), and then no move ends.
    """
    dirs = [
        {"path": _path(run, name), "topics": [{"name": run.topic({"topic": topic}), "partitions": indexes}]}
        for name, topic, indexes in step["moves"]
    ]
    response = run.ask("AlterReplicaLogDirs", step, 2, dirs=dirs)
    names = {run.topic({"topic": topic}): topic for _, topic, _ in step["moves"]}
    if not until(lambda: not _is_moving(run, names)):
        raise TimeoutError(f"replicas still move to another directory after {WITHIN:.0f} s")
    return {
        "results": sorted(
            [names[topic.topic_name], part.partition_index, shown(part.error_code)]
            for topic in response.results
            for part in topic.partitions
        )
    }


def _is_moving(run: Run, names: Container[str]) -> bool:
    topics = [topic for each in _described(run, {}).results for topic in each.topics if topic.name in names]
    return any(part.is_future_key for topic in topics for part in topic.partitions)


def _cordon(run: Run, step: Json) -> Json:
    """Set cordoned.log.dirs of the broker. If the change is not refused, wait until the broker shows the change."""
    value = step["dirs"] if isinstance(step["dirs"], str) else ",".join(_path(run, each) for each in step["dirs"])
    changes = [{"name": "cordoned.log.dirs", "config_operation": 0, "value": value}]
    resource = {"resource_type": 4, "resource_name": step.get("resource", "1"), "configs": changes}
    response = run.ask("IncrementalAlterConfigs", step, 1, resources=[resource], validate_only=False).responses[0]
    if not response.error_code and run.announced.lowered(*TELLS_CORDONED) == TELLS_CORDONED[1]:
        wanted = value.split(",") if value else []
        until(
            lambda: all(
                each.is_cordoned == (value == "*" or each.log_dir in wanted) for each in _described(run, {"topics": []}).results
            )
        )
    return {"error": shown(response.error_code), "message": response.error_message}


LOG_DIR_OPERATIONS = {"log_dirs": _log_dirs, "move_logs": _move_logs, "cordon": _cordon}
