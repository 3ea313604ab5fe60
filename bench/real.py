"""Measures realistic loads: JSON of mixed lengths with keys, some with headers, through three clients and every codec.

An idempotent producer of librdkafka, of the Java client or of franz-go sends the records, and a consumer of the same library
reads them. The producer has default settings (franz-go lingers for 5 ms). The clients' clocks set the timestamps. The CPU time
is the server's, from the moment that the client connects until the last record is acknowledged or read. After these clients,
the load generator sends equal records in batches of three sizes.
"""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from bench import peers
from bench.beside import serve, without_compiled
from bench.contenders import PARTS, ROOT, Contender, Field, go_binary
from bench.peers import KAFKA, KFAKE, OPTIONS
from bench.process import Missing, Server, ServerFailed, cpu_ns, end_group
from bench.throughput import LOAD_WITHIN, REQUESTS, SIZES, Case, Report
from ecosystem.kafka.releases import KafkaUnavailable, fetch_jars
from ecosystem.kafka.server import KafkaServer
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wirebroker.client.wire import WireClient

PURE, COMPILED = "wirebroker", "wirebroker, compiled"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 300_000
DISTINCT = 20_000
"""The number of records in the file; a client's largest batch has fewer."""
SHORTEST, LONGEST = 80, 400
EQUAL = {"1k": 16, "16k": 160, "1m": 8_000}
"""For each size of batch, the number of equal records that make a batch of about this size."""
WORDS = ("paid", "shipped", "returned", "express", "gift", "invoice", "refund", "street", "north", "south", "blue", "large")


def measure(
    entered: Field, only: Sequence[str], chosen: Sequence[str], rounds: int, share: float, say: Callable[[str], None]
) -> tuple[list[Case], list[Missing]]:
    """Measures all cases, round by round, and lists the clients and contenders that cannot run. `only` and `chosen` name rows
    and contenders by prefix."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wirebroker-bench-")))
        running = [*own(folder), *entered.named(KFAKE)]
        clients, missing = _clients(folder)
        server: KafkaServer | None = None
        if not chosen or KAFKA.startswith(tuple(chosen)):
            try:
                server = stack.enter_context(KafkaServer(heap="1g", java_options=OPTIONS))
                running.append(Contender(KAFKA, ()))
            except KafkaUnavailable as lacking:
                missing.append(Missing(KAFKA, str(lacking)))
        running = [each for each in running if not chosen or each.name.startswith(tuple(chosen))]
        cases = [
            case for case in _cases(clients, folder, running, share, entered) if not only or case.title.startswith(tuple(only))
        ]

        def one(case: Case, contender: Contender) -> Report:
            if contender.name == KAFKA:
                assert server is not None
                return _load(case, "{}:{}".format(*server.address), server.pid)
            with Server(contender.at(0)) as fresh:
                return _load(case, fresh.address, fresh.pid)

        peers.rounds(cases, one, rounds, say)
    return cases, missing


def own(folder: Path) -> list[Contender]:
    """Returns this checkout as pure Python and, if `scripts/compile` has compiled the checkout, also in its compiled form."""
    flags = ("--record-checks", "full")
    if not is_compiled():
        return [Contender(PURE, serve(ROOT, "asyncio", flags))]
    return [
        Contender(PURE, serve(without_compiled(folder), "asyncio", flags)),
        Contender(COMPILED, serve(ROOT, "asyncio", flags)),
    ]


def is_compiled() -> bool:
    """Tells whether `scripts/compile` compiled this checkout."""
    return any(ROOT.glob("[bp]r*/**/*__mypyc.*"))


def _clients(folder: Path) -> tuple[dict[str, tuple[str, ...]], list[Missing]]:
    """Returns the command of each client that can run here, and the reason why each other client cannot run."""
    found, missing = {"librdkafka": (sys.executable, str(PARTS / "librdkafka.py"))}, list[Missing]()
    try:
        jars = fetch_jars()
        source, classes = PARTS / "java" / "RealLoad.java", folder / "classes"
        done = subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, source], capture_output=True, text=True, check=False)
        if done.returncode:
            raise KafkaUnavailable(f"javac failed: {done.stderr.strip()[-200:]}")
        found["Java"] = ("java", "-Xmx512m", "-cp", f"{jars}/*:{classes}", "RealLoad")
    except (KafkaUnavailable, OSError) as lacking:
        missing.append(Missing("the Java client", str(lacking)))
    franz = go_binary("franzgen")
    if isinstance(franz, Missing):
        missing.append(franz)
    else:
        found["franz-go"] = (str(franz),)
    return found, missing


def _cases(
    clients: dict[str, tuple[str, ...]], folder: Path, running: Sequence[Contender], share: float, entered: Field
) -> Iterator[Case]:
    """Yields the cases. First comes a case for each client and codec, which measures the producer and then the consumer. Then
    come the cases with equal records.
    """
    file, count = folder / "records", str(int(RECORDS * share))
    file.write_text("".join(f"{line}\n" for line in lines()))
    for client, command in clients.items():
        for codec in CODECS:
            yield Case("real", f"{client} {codec}", [str(file), codec, count], running, generator=command)
    for size, records in EQUAL.items() if entered.has_go else ():
        title = f"equal records, {records:,} in a batch of {SIZES[size]:,} bytes"
        load = ["-bytes", str(SIZES[size]), "-records", str(records), "-requests", str(int(REQUESTS[size] * share))]
        yield Case("produce", title, [*load, "-seconds", "20", "-warmup", "20"], running, generator=entered.load)


def lines() -> Iterator[str]:
    """Yields a line for each record: key, header (mostly none) and a value in JSON, separated by tabs."""
    dice = random.Random(7)
    for number in range(DISTINCT):
        order: dict[str, object] = {
            "order": 7_000_000 + number,
            "customer": f"c-{dice.randrange(40_000)}",
            "cents": dice.randrange(90_000),
        }
        length, items = dice.randint(SHORTEST, LONGEST), list[dict[str, object]]()
        while len(text := json.dumps(order | {"items": items}, separators=(",", ":"))) < length - 60:
            items.append({"sku": f"{dice.getrandbits(40):010x}", "count": dice.randint(1, 9), "note": dice.choice(WORDS)})
        note = "".join(f" {dice.choice(WORDS)}" for _ in range(length // 5))[1:]
        text = f'{text[:-1]},"note":"{note[: max(length - len(text) - 10, 0)]}"}}'
        header = f"{dice.getrandbits(64):016x}" if number % 5 == 0 else ""
        yield f"{order['customer']}\t{header}\t{text}"


def _load(case: Case, address: str, pid: int) -> Report:
    """Run the load of this case against a server."""
    if case.mode == "produce":
        return peers.generate([*case.generator, *case.load], address, pid)
    host, _, port = address.rpartition(":")
    topic = f"bench-{time.time_ns()}"
    with closing(WireClient(host, int(port))) as client:
        wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        client.request(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7)
    file, codec, count = case.load
    figures: Report = {}
    for mode in ("produce", "consume"):
        seconds, used = _run(_command(case.generator, mode, address, topic, file, codec, count), pid)
        figures |= {f"{mode}_per_second": int(count) / seconds, f"{mode}_cpu_us": used / 1e3 / int(count)}
    return figures


def _command(client: Sequence[str], mode: str, address: str, topic: str, file: str, codec: str, count: str) -> list[str]:
    if not client[0].endswith("franzgen"):
        return [*client, mode, address, topic, file, codec, count]
    return [*client, "-mode", mode, "-address", address, "-topic", topic, "-file", file, "-codec", codec, "-records", count]


def _run(command: Sequence[str], pid: int) -> tuple[float, int]:
    """Run a client. Returns the seconds between the client's lines "ready" and "done", and the server's CPU time in this
    period, in ns. Raises ServerFailed."""
    with tempfile.TemporaryFile() as errors:
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        assert client.stdin is not None
        assert client.stdout is not None

        def heard(word: bytes) -> None:
            assert client.stdout is not None
            if not select.select([client.stdout], [], [], LOAD_WITHIN)[0]:
                raise ServerFailed(f"the client did not say {word.decode()} within {LOAD_WITHIN:.0f} s")
            if client.stdout.readline().strip() != word:
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip().splitlines() or ["nothing"]
                raise ServerFailed(f"the client failed and said: {said[-1]}")

        try:
            heard(b"ready")
            before, start = cpu_ns(pid), time.perf_counter()
            client.stdin.write(b"\n")
            client.stdin.flush()
            heard(b"done")
            return time.perf_counter() - start, cpu_ns(pid) - before
        finally:
            end_group(client)
            client.stdin.close()
            client.stdout.close()


def text(case: Case) -> str:
    """Returns two tables for a real load: one for its producer, and one for its consumer."""
    shown = []
    for mode in ("produce", "consume"):
        part = Case(mode, f"{case.title}: {mode}", case.load, case.contenders, failures=case.failures)
        for name, found in case.rounds.items():
            part.rounds[name] = [{peers.RATE: each[f"{mode}_per_second"], peers.CPU: each[f"{mode}_cpu_us"]} for each in found]
        shown.append(peers.text(part))
    return "\n\n".join(shown)
