"""This module alone decides which tests and duties a push leaves out.

With `--share push` (`scripts/test` without arguments, and `.ci/run`) pytest runs a tenth of the tests of each kind below, and a
tenth of the tests that are marked as slow. Most pushes run no test of a kind that has `turns`. The commit is the seed, so each
push runs another tenth. If the code that a kind tests has changed, pytest runs the whole kind. If a test file has changed,
pytest runs all its tests. `scripts/test --all` and `.ci/run --nightly` leave nothing out.

    python tests/sampling.py DUTY    exits with 0 if this push has this duty; else prints a sentence, exits with 1

A file has changed if it differs from the commit WIREBROKER_CI_BASE. If this variable is not set, or git does not know the
commit, HEAD takes its place.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

ROOT = Path(__file__).resolve().parent.parent
BASE, SEED = "WIREBROKER_CI_BASE", "WIREBROKER_TEST_SEED"
ONE_OF = 10


class Kind(NamedTuple):
    """A kind of tests. There are many tests of this kind. `tests` is a regular expression for their node ids, and `code` is a
    regular expression for the paths of the code that they test. If a push does not change this code, only one of `turns` such
    pushes runs tests of this kind."""

    tests: str
    code: str
    turns: int = 1


KINDS = {
    "audits on Spark": Kind(  # Spark itself needs minutes of CPU time
        r"^tests/audit_spark/", r"^pipeline/|/audit/|/disk/|/storage/|^tests/audit_", turns=4
    ),
    "captures": Kind(r"/test_(capture|decode|dissector)\.py", r"^protocol/|/(capture|decode|dissector)/|^tests/wire"),
    "clients of other languages": Kind(
        r"/test_(interop|quickstarts)\.py", r"/(net|apis|requests)/|^protocol/|ecosystem|^clients/|quickstart"
    ),
    "code in the docs": Kind(
        r"/test_docs\.py::test_(python_|java|go_|a_broker_starts|a_scenario_runs)",
        r"^docs/|^README\.md|/(audit|commands|deeds|faults|scenarios|testing)/|/mock\.py",
    ),
    "compared recordings": Kind(r"/test_conformance_unit\.py.*\[", r"/conformance/"),
    "dialogues": Kind(
        r"/test_dialogues\.py.*\[|/test_conformance\.py::test_kafka_responds\[slow_", r"/(core|apis|engine|requests)/|dialogues"
    ),
    "disk faults": Kind(r"/test_(disk_faults|hostile_data)\.py|::test_hundreds_of_damaged", r"/(storage|disk)/"),
    "explanations and pictures": Kind(
        r"/test_(explain|explain_errors|flows|learn|pictures|replay|saved|scenarios|stories|trace_show)\.py",
        r"^tools/|/(audit|faults|proxy|trace)/",
    ),
    "explored programs": Kind(r"/test_explore(_flows|_clients)?\.py", r"/campaign/|^tests/explored/"),
    "fuzzers": Kind(r"/test_fuzz\.py", r"^protocol/|^tests/fuzzing/"),
    "histories": Kind(r"/test_(kafka_model|anomalies)\.py.*\[", r"/(core|apis)/|^tests/(kafka_model|simulation)/"),
    "Kafka's own readers": Kind(r"/test_(storage_kafka|codec_kafka)\.py", r"^protocol/|/storage/"),
    "memory": Kind(r"/test_(memory|costs)\.py", r"/(core|apis|engine|net|requests)/"),
    "messages": Kind(r"^tests/wire/test_(codec|codec_kio|codec_kafka_python|wire_fuzz)\.py.*\[", r"^protocol/|^tests/wire/"),
    "logs on disk": Kind(
        r"/test_(log_dirs|memory_compaction|storage|storage_compaction|storage_coordinators|damage)\.py",
        r"/(core|disk|engine|storage)/",
    ),
    "long texts": Kind(r"/test_unwritable_texts\.py", r"/(apis|core|requests|storage)/"),
    "other releases": Kind(r"/test_releases\.py.*\[", r"/(core|conformance)/"),
    "processes": Kind(
        r"/test_(demo|disk_serve|environment|exit_with_parent|extras|forks|other_files|outputs|serve|sidecar)\.py",
        r"/(commands|net|storage)/|/pytest_plugin\.py|^pyproject\.toml",
    ),
    "random batches": Kind(  # on each push Hypothesis tries the same examples, so without a change it finds nothing new
        r"/test_(batches|record_checks)\.py::test_(damage|the_quick_walk|the_walk|a_large_body|a17_(any_bytes|random|a_flip))",
        r"^protocol/|/core/record_checks",
    ),
    "rights": Kind(r"/test_acls\.py.*\[", r"/(apis|core|requests|security)/|acl_requests"),
    "schedules": Kind(r"/test_(simulation|world)\.py.*\[", r"/core/|^tests/(simulation|random_dialogues)/"),
    "soft resets": Kind(r"/test_soft_reset\.py::test_a_service", r"/(net|engine|testing)/|soft-reset"),
    "slices": Kind(r"/test_(fair_turns|numbers|share_slices|slices|turns)\.py", r"/(core|apis|engine|net)/"),
    "the image": Kind(r"::test_the_container", r"[Dd]ocker|^pyproject\.toml|^uv\.lock"),
    "the live page": Kind(r"/test_live_page\.py", r"/(live|control|pictures|explain)/"),
}


class Duty(NamedTuple):
    """Work of `.ci/run` and `scripts/test` other than the tests. A push does this work if it changes a path that matches
    `code`. If no changed path matches, one of `turns` pushes does the work anyway."""

    turns: int
    code: str


CLIENTS = r"/(net|apis|requests)/|^protocol/|^ecosystem/"
HOT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["wirebroker"]["compiled"]
DUTIES = {
    "budgets": Duty(2, "|".join([r"^(scripts/)?bench", *map(re.escape, HOT)])),
    "clone": Duty(4, r"^scripts/(build|release|_env)|^uv\.lock|^pyproject\.toml"),
    "compiled": Duty(4, "|".join([r"^scripts/compile", *map(re.escape, HOT)])),
    "duplicates": Duty(4, r"^(broker|pipeline|protocol|tools)/.*\.py$|^pyproject\.toml"),
    "suite": Duty(2, CLIENTS),
    **{
        f"client {name}": Duty(3, CLIENTS)
        for name in ("java", "kcat", "confluent-kafka", "franz-go", "sarama", "kafkajs", "kafka-python", "aiokafka")
    },
}


def _git(*arguments: str) -> list[str] | None:
    try:
        run = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.splitlines()


@cache
def changed() -> list[str]:
    differing = _git("diff", "--name-only", "--no-renames", os.environ.get(BASE) or "HEAD")
    if differing is None:
        differing = _git("diff", "--name-only", "--no-renames", "HEAD") or []
    return differing + (_git("ls-files", "--others", "--exclude-standard") or [])


def touched(code: str) -> bool:
    return any(re.search(code, path) for path in changed())


@cache
def seed() -> str:
    """Returns the seed, and passes it on to the processes that this process starts."""
    return os.environ.setdefault(SEED, "".join(_git("rev-parse", "--short", "HEAD") or ["none"]))


def drawn(name: str, one_of: int) -> bool:
    return crc32(f"{seed()} {name}".encode()) % one_of == 0


@cache
def sampled() -> list[str]:
    """Returns the kinds for which this push runs only some tests."""
    return [name for name, kind in KINDS.items() if not touched(kind.code)]


def left_out(test: str, is_slow: bool) -> bool:
    """Returns whether this push leaves out the test with the node id `test`."""
    kind = next((name for name, kind in KINDS.items() if re.search(kind.tests, test)), None)
    whole = kind not in sampled() if kind else not is_slow
    if whole or test.partition("::")[0] in changed():
        return False
    return kind in resting() or not drawn(test, ONE_OF)


@cache
def resting() -> list[str]:
    """Returns the kinds whose tests this push leaves out, all of them."""
    return [name for name in sampled() if not drawn(name, KINDS[name].turns)]


def summary() -> str:
    kinds = ", ".join((*(name for name in sampled() if name not in resting()), "slow tests"))
    none = f"none of these: {', '.join(resting())}; " if resting() else ""
    return f"seed {seed()}: only one in {ONE_OF} tests of these kinds ran: {kinds}; {none}scripts/test --all runs all tests"


def main() -> int:
    name = sys.argv[1]
    duty = DUTIES[name]
    if touched(duty.code) or drawn(name, duty.turns):
        return 0
    print(f"{name}: not this time (seed {seed()}, one of {duty.turns} pushes); .ci/run --nightly does it")
    return 1


if __name__ == "__main__":
    sys.exit(main())
