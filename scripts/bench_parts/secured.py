"""TLS and share groups beside kfake and a real Kafka: Produce at 16 KiB, handshakes, deliveries.

One Kafka serves all rounds, so that its code is compiled when it counts; the first round warms it up and is not shown.
All servers have the same certificate (ECDSA, P-256). Sessions of TLS are not resumed.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from _kafka_security import SERVER, Security
from _kafka_server import KafkaServer, KafkaUnavailable
from bench_parts import report
from bench_parts.contenders import Contender, Field, go_binary
from bench_parts.process import Missing, Server, ServerFailed
from bench_parts.throughput import LOAD_WITHIN, Case, Report, produce_cases

KAFKA, BROKER, KFAKE = "Kafka 4.3.1", "wirebroker full", "kfake"
TLS = {BROKER: ("--listener", "SSL=SSL://127.0.0.1:0", "--tls-cert", "{}"), KFAKE: ("--port", "0", "--tls", "{}")}
"""The settings that make a contender speak TLS with the key and the certificates of a file."""
PLAIN = {BROKER: ("--port", "0"), KFAKE: ("--port", "0")}
RATE, CPU = "requests_per_second", "server_cpu_us_per_request"
OPTIONS = ("-XX:+UseSerialGC",)
"""Of Kafka's JVM: without the limit that makes it start faster and run slower."""


def measure(entered: Field, rounds: int, share: float, say: Callable[[str], None]) -> list[Case]:
    """All cases, round by round. A contender that cannot run is named in the failures."""
    running = entered.named(BROKER, KFAKE)
    kafka = Contender(KAFKA, ())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        security = Security(listeners=("SSL",))
        server: KafkaServer | None = None
        try:
            server = stack.enter_context(KafkaServer(security=security, heap="1g", java_options=OPTIONS))
        except KafkaUnavailable:
            security.make_certificates(folder)
        cases = list(_cases(entered, [*running, kafka] if server else running, share))
        for number in range(rounds + 1):
            for case, generator in cases:
                say(f"round {number} of {rounds}: {case.title}")
                for contender in case.contenders:
                    if contender.name in case.failures:
                        continue
                    try:
                        found = _one(contender, server, security.folder / SERVER, [*generator, *case.load])
                    except ServerFailed as failed:
                        case.failures[contender.name] = str(failed)
                        continue
                    if number:
                        case.rounds.setdefault(contender.name, []).append(found)
    return [case for case, _ in cases]


def _cases(entered: Field, running: Sequence[Contender], share: float) -> Iterator[tuple[Case, Sequence[str]]]:
    """The cases, each with its load generator."""
    (produce,) = produce_cases(running, ["16k"], [1], 9, share)
    produce.title, produce.load = f"TLS: {produce.title}", [*produce.load, "-tls"]
    yield produce, entered.load
    load = ["-mode", "handshake", "-tls", "-connections", "4", "-seconds", str(2 * share), "-warmup", "200"]
    yield Case("handshake", "TLS: handshakes, four clients at once", load, running), entered.load
    sharegen = go_binary("sharegen")
    if not isinstance(sharegen, Missing):
        title = "Share group: deliveries to one member, batches of 100 records of 100 B"
        yield Case("share", title, ["-records", str(int(200_000 * share))], running), [str(sharegen)]


def _one(contender: Contender, kafka: KafkaServer | None, certificate: Path, load: Sequence[str]) -> Report:
    """One contender under one load. Raises ServerFailed."""
    secured = "-tls" in load
    if contender.name == KAFKA:
        assert kafka is not None
        address = "{}:{}".format(*kafka.addresses["SSL" if secured else "PLAINTEXT"])
        return _generate(load, address, kafka.pid)
    flags = (TLS if secured else PLAIN)[contender.name]
    with Server([*contender.command, *(flag.format(certificate) for flag in flags)]) as server:
        return _generate(load, server.address, server.pid)


def _generate(load: Sequence[str], address: str, pid: int) -> Report:
    command = [*load, "-address", address, "-pid", str(pid), "-topic", f"bench-{time.time_ns()}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_WITHIN, check=False)
    except subprocess.TimeoutExpired as late:
        raise ServerFailed(f"the load was not done after {LOAD_WITHIN:.0f} s") from late
    if done.returncode:
        raise ServerFailed(done.stderr.strip().splitlines()[-1])
    made: Report = json.loads(done.stdout)
    return made


def text(case: Case) -> str:
    """One case: medians, and ratios to kfake and Kafka within each round."""
    rows = []
    for name, found in case.rounds.items():
        ratios = [case.ratio(name, other, RATE) for other in (KFAKE, KAFKA)]
        shown = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        rows.append([name, str(len(found)), f"{case.middle(name, RATE):,.0f}", f"{case.middle(name, CPU):.1f}", *shown])
    table = report.table(["", "rounds", "a second", "CPU µs each", "× kfake", "× Kafka"], rows)
    return f"{case.title}\n{table}" + "".join(f"\n{name} failed: {why}" for name, why in case.failures.items())
