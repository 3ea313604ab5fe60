"""Compares TLS and share groups of wirebroker, kfake and a real Kafka: Produce at 16 KiB, handshakes, deliveries.

All servers have the same certificate (ECDSA, P-256). No client resumes a TLS session.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import peers
from bench.contenders import Contender, Field, go_binary
from bench.peers import BROKER, KAFKA, KFAKE, OPTIONS
from bench.process import Missing, Server
from bench.throughput import Case, Report, produce_cases
from ecosystem.kafka.security import SERVER, Security
from ecosystem.kafka.server import KafkaServer, KafkaUnavailable

TLS = {BROKER: ("--listener", "SSL=SSL://127.0.0.1:0", "--tls-cert", "{}"), KFAKE: ("--port", "0", "--tls", "{}")}
"""The options with which each contender speaks TLS; {} stands for the file with the key and the certificates."""
PLAIN = {BROKER: ("--port", "0"), KFAKE: ("--port", "0")}


def measure(entered: Field, rounds: int, share: float, say: Callable[[str], None]) -> list[Case]:
    """Measures all cases, round by round. The failures of a case name the contenders that could not run."""
    running = entered.named(BROKER, KFAKE)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        security = Security(listeners=("SSL",))
        server: KafkaServer | None = None
        try:
            server = stack.enter_context(KafkaServer(security=security, heap="1g", java_options=OPTIONS))
            running.append(Contender(KAFKA, ()))
        except KafkaUnavailable:
            security.make_certificates(folder)
        cases = list(_cases(entered, running, share))

        def one(case: Case, contender: Contender) -> Report:
            generator = case.generator or entered.load
            return _one(contender, server, security.folder / SERVER, [*generator, *case.load])

        peers.rounds(cases, one, rounds, say)
    return cases


def _cases(entered: Field, running: Sequence[Contender], share: float) -> Iterator[Case]:
    """Yields the cases."""
    (produce,) = produce_cases(running, ["16k"], [1], 9, share)
    produce.title, produce.load = f"TLS: {produce.title}", [*produce.load, "-tls"]
    yield produce
    load = ["-mode", "handshake", "-tls", "-connections", "4", "-seconds", str(2 * share), "-warmup", "200"]
    yield Case("handshake", "TLS: handshakes, four clients at once", load, running)
    franzgen = go_binary("franzgen")
    if not isinstance(franzgen, Missing):
        title = "Share group: deliveries to one member, batches of 100 records of 100 B"
        yield Case("share", title, ["-records", str(int(200_000 * share))], running, generator=[str(franzgen)])


def _one(contender: Contender, kafka: KafkaServer | None, certificate: Path, load: Sequence[str]) -> Report:
    """Measures one contender under one load. Raises ServerFailed."""
    secured = "-tls" in load
    if contender.name == KAFKA:
        assert kafka is not None
        address = "{}:{}".format(*kafka.addresses["SSL" if secured else "PLAINTEXT"])
        return peers.generate(load, address, kafka.pid)
    flags = (TLS if secured else PLAIN)[contender.name]
    with Server([*contender.command, *(flag.format(certificate) for flag in flags)]) as server:
        return peers.generate(load, server.address, server.pid)
