"""Runs kcat from its command line, as a shell would. kcat has no admin calls, so topics are created by producing."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from kit import LIMIT, OVER, REFUSED, SECURED, WAITS, NotOffered, access, numbered, run, same, settings, until, waited_since

KCAT = os.environ.get("KCAT", "kcat")
VERSION = re.findall(r"Version (\S+) .*librdkafka (\S+)", subprocess.check_output([KCAT, "-V"], text=True))[0]
PIECE = 20_000
"""The values are repeated this many times, so that kcat sends records before its input ends."""
FENCED = ("fenced", "_FENCED", "PRODUCER_FENCED")


def kcat(bootstrap: str, *arguments: str, given: str = "") -> str:
    """Calls kcat and returns its output. Raises AssertionError with the error output if the call fails."""
    command = [KCAT, "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise AssertionError(f"kcat {' '.join(arguments)}: {done.stderr.strip()[-300:]}")
    return done.stdout


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[str]:
    """Returns the distinct values of the records in a topic."""
    text = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-X", f"isolation.level={isolation}")
    return sorted(set(text.split()))


def transaction(bootstrap: str, name: str, values: list[str], *, ends: bool = True) -> subprocess.Popen[str]:
    """Produce in a transaction. kcat commits it at the end of the input, and aborts it if a signal comes before the end."""
    process = subprocess.Popen(
        [KCAT, "-b", bootstrap, "-P", "-t", name, "-X", f"transactional.id={name}", "-X", "linger.ms=0"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    # kcat sends nothing until it has read a large piece of its input, or the whole input.
    process.stdin.write("".join(f"{value}\n" for value in values) * (1 if ends else PIECE))
    process.stdin.flush()
    if ends:
        _, told = process.communicate(timeout=LIMIT)
        same(process.returncode, 0, f"{told.strip()[-300:]}: exit code")
    return process


def produce(bootstrap: str, name: str) -> None:
    values = [value.decode() for value in numbered("value", 9)]
    lines = "".join(f"{value}:{value}\n" for value in values)
    kcat(bootstrap, "-P", "-t", name, "-K", ":", "-H", "h=1", "-X", "enable.idempotence=true", given=lines)
    same(read(bootstrap, name), values)


def commit(bootstrap: str, name: str) -> None:
    for batch in ("one", "two"):
        transaction(bootstrap, name, [f"{batch}-{number}" for number in range(4)])
    same(read(bootstrap, name), [f"{batch}-{number}" for batch in ("one", "two") for number in range(4)])


def abort(bootstrap: str, name: str) -> None:
    transaction(bootstrap, name, ["1"])
    process = transaction(bootstrap, name, ["2-aborted"], ends=False)
    until(lambda: "2-aborted" in read(bootstrap, name, "read_uncommitted"), "the record is there")
    process.terminate()
    process.communicate(timeout=LIMIT)
    transaction(bootstrap, name, ["3"])
    same(read(bootstrap, name), ["1", "3"], "read_committed saw")
    same(read(bootstrap, name, "read_uncommitted"), ["1", "2-aborted", "3"], "read_uncommitted saw")


def fence(bootstrap: str, name: str) -> str:
    transaction(bootstrap, name, ["first"])
    zombie = transaction(bootstrap, name, ["zombie"], ends=False)
    until(lambda: "zombie" in read(bootstrap, name, "read_uncommitted"), "the record is there")
    transaction(bootstrap, name, ["heir"])
    _, told = zombie.communicate(timeout=LIMIT)
    same(zombie.returncode != 0 and any(word in told for word in FENCED), True, f"{told.strip()[-200:]}: fenced")
    same(read(bootstrap, name), ["first", "heir"])
    return "_FENCED"


def rebalance(bootstrap: str, name: str) -> None:
    """Two members share four topics with one partition each, because kcat cannot create a topic with four partitions."""
    topics = [f"{name}-{number}" for number in range(4)]
    for topic in topics:
        kcat(bootstrap, "-P", "-t", topic, given="x\n")
    settings = ("-X", "partition.assignment.strategy=roundrobin", "-X", "heartbeat.interval.ms=200")
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first"), Path(folder, "second")

        def join(told: Path) -> subprocess.Popen[bytes]:
            command = [KCAT, "-b", bootstrap, "-G", name, *settings, *topics]
            with told.open("wb") as errors:
                return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)

        def owned(told: Path) -> list[str]:
            assigned = re.findall(r"\bassigned: (.*)", told.read_text())
            return re.findall(r"\S+ \[\d+\]", assigned[-1]) if assigned else []

        one = join(first)
        until(lambda: {each.split()[0] for each in owned(first)} == set(topics), "one member has all topics")
        half = len(owned(first)) // 2
        two = join(second)
        until(lambda: len(owned(first)) == len(owned(second)) == half, "each of the two members has half of the topics")
        same(set(owned(first)) & set(owned(second)), set(), "owned twice:")
        one.terminate()
        one.wait(LIMIT)
        until(lambda: len(owned(second)) == 2 * half, "the remaining member has all topics")
        two.terminate()
        two.wait(LIMIT)


def list_offsets(bootstrap: str, name: str) -> None:
    began = int(time.time() * 1000)
    kcat(bootstrap, "-P", "-t", name, "-p", "0", given="1\n2\n3\n")
    for when, offset in ((began, 0), (-2, 0), (-1, 3)):
        found = kcat(bootstrap, "-Q", "-t", f"{name}:0:{when}")
        same(re.findall(r"offset (-?\d+)", found), [str(offset)], f"offset for {when}")


def flags(name: str) -> list[str]:
    """Returns the settings of this check as flags. kcat accepts true and false only in lower case."""
    found = settings(name, "confluent")
    texts = {key: str(value).lower() if value is True else value for key, value in found.items() if key != "bootstrap.servers"}
    return [word for key, value in texts.items() for word in ("-X", f"{key}={value}")]


def secured(_: str, name: str) -> None:
    """Produce and consume with the certificates or the user that this check names."""
    broker = access(name).bootstrap_servers
    kcat(broker, "-P", "-t", name, *flags(name), given="x\n")
    same(kcat(broker, "-C", "-t", name, "-o", "beginning", "-c", "1", "-q", *flags(name)), "x\n", "record")


def scram(bootstrap: str, name: str) -> None:
    if VERSION[1].startswith("2.0."):
        raise NotOffered(f"librdkafka {VERSION[1]} computes a wrong proof; a real Kafka refuses it, too")
    secured(bootstrap, name)


def acl(_: str, name: str) -> str:
    broker, named = access(name).bootstrap_servers, "Topic authorization failed"
    command = [KCAT, "-b", broker, "-P", "-t", REFUSED, *flags(name)]
    done = subprocess.run(command, input="x\n", capture_output=True, text=True, timeout=LIMIT, check=False)
    same((done.returncode != 0, named in done.stderr), (True, True), f"{done.stderr.strip()[-200:]}: refused")
    kcat(broker, "-P", "-t", name, *flags(name), given="x\n")
    return named


def quota(_: str, name: str) -> str:
    """Sends two records in separate requests. After the first record the quota delays the client by 2.5 s. Without a quota,
    kcat would take about a second.
    """
    alone = ("-X", "linger.ms=0", "-X", "batch.num.messages=1", "-X", "max.in.flight.requests.per.connection=1")
    began = time.monotonic()
    given = "x" * (OVER + 10_000) + "\nx\n"
    kcat(
        access(name).bootstrap_servers,
        "-P",
        "-t",
        name,
        "-p",
        "0",
        "-X",
        f"client.id={name}",
        *alone,
        *flags(name),
        given=given,
    )
    return waited_since(began, 2 * WAITS)


if __name__ == "__main__":
    run("kcat", f"{VERSION[0]} (librdkafka {VERSION[1]})", {
        "produce": produce, "commit": commit, "abort": abort, "fence": fence, "rebalance": rebalance,
        "list-offsets": list_offsets, **dict.fromkeys(SECURED, secured),
        "scram-sha-256": scram, "scram-sha-512": scram, "acl": acl, "quota": quota,
    })  # fmt: skip
