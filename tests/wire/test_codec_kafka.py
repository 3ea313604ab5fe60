"""Compares the codec with Kafka's own classes. The codec and Kafka's classes write the same bytes and refuse the same damaged
bytes. If both accept some bytes, they read the same values.

Runs `KafkaOracle.java` on the kafka-clients jars that scripts/generate-messages fetches. Kafka's classes for a version of a
message are from a release that describes this version. The tests are skipped if there is no Java or no jar.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from kafkawire import codec
from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.frames import read_request_header
from kafkawire.messages.fetch import FetchResponse
from kafkawire.messages.produce import ProduceRequest
from kafkawire.registry import request_header_version
from wire.random_messages import EVERY_VERSION, KAFKA, NEWER, OLDER, Maker, damaged, release_of

MESSAGES_PER_VERSION = 5
DAMAGED_PER_MESSAGE = 4
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "wirebroker"
JARS = {release: CACHE / f"kafka-clients-{release}.jar" for release in (OLDER, KAFKA, NEWER)}
ASKED = [(cls, v) for cls, v in EVERY_VERSION if release_of(cls, v) != OLDER or cls not in (ProduceRequest, FetchResponse)]
"""Every version with two exceptions: the versions of Produce and Fetch that only 3.9.2 describes need a logger, which the jar
does not have."""
QUESTION = struct.Struct(">chhi")
RESPONSE = struct.Struct(">ii")
REPLACED = "\ufffd".encode()


class Question(NamedTuple):
    kind: bytes
    key: int
    version: int
    raw: bytes


class Response(NamedTuple):
    read: int
    """The number of bytes that Kafka read, or -1 if Kafka refused them."""
    written: bytes
    """The bytes that Kafka wrote, or the reason why it refused."""


def ask_each(sent: Sequence[tuple[type[Message], Question]]) -> Iterator[tuple[type[Message], Question, Response]]:
    """Lets Kafka's classes read each message. The classes are from the release that describes the message's version. Yields
    their responses.
    """
    by_release: dict[str, list[tuple[type[Message], Question]]] = {}
    for cls, question in sent:
        by_release.setdefault(release_of(cls, question.version), []).append((cls, question))
    assert by_release.keys() == JARS.keys()
    for release, asked in by_release.items():
        for (cls, question), response in zip(asked, ask([each for _, each in asked], release), strict=True):
            yield cls, question, response


def ask(questions: Sequence[Question], release: str = KAFKA) -> list[Response]:
    source = Path(__file__).with_name("KafkaOracle.java")
    sent = b"".join(QUESTION.pack(*q[:3], len(q.raw)) + q.raw for q in questions)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(JARS[release]), str(source)]
    ran = subprocess.run(command, input=sent, capture_output=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr.decode()
    responses, pos = [], 0
    while pos < len(ran.stdout):
        read, size = RESPONSE.unpack_from(ran.stdout, pos)
        pos += RESPONSE.size
        responses.append(Response(read, ran.stdout[pos : pos + size]))
        pos += size
    assert len(responses) == len(questions)
    return responses


@pytest.fixture(autouse=True)
def kafka_is_there() -> None:
    if shutil.which("javac") is None:
        pytest.skip("no JDK to run Kafka's classes with")
    missing = [jar.name for jar in JARS.values() if not jar.exists()]
    if missing:
        pytest.skip(f"{missing[0]} is missing: run scripts/generate-messages --check to fetch it")


def questions_of(cls: type[Message], version: int, raw: bytes) -> Question:
    return Question(b"q" if cls.__name__.endswith("Request") else b"s", cls.__schema__.key, version, raw)


def test_kafka_reads_what_is_written_here_and_writes_the_same() -> None:
    sent = [
        (cls, questions_of(cls, version, codec.encode(Maker((cls, version, number)).message(cls, version), version)))
        for cls, version in ASKED
        for number in range(MESSAGES_PER_VERSION)
    ]
    for cls, question, response in ask_each(sent):
        assert (cls, question.version, response) == (cls, question.version, Response(len(question.raw), question.raw))


def test_kafka_refuses_the_same_damaged_messages_and_reads_the_same_in_the_others() -> None:
    random = Random(4)
    sent: list[tuple[type[Message], Question]] = []
    for cls, version in ASKED:
        whole = codec.encode(Maker((cls, version)).message(cls, version), version)
        sent += [(cls, questions_of(cls, version, damaged(whole, random))) for _ in range(DAMAGED_PER_MESSAGE)]
    refused = 0
    for cls, question, response in ask_each(sent):
        try:
            message, read = codec.decode(cls, question.raw, question.version)
        except ProtocolError as damage:
            if "31 bits" not in str(damage):  # Kafka reads such a length or count as a negative number
                assert (cls, question, response.read) == (cls, question, -1)
            refused += 1
            continue
        assert (cls, question, read) == (cls, question, response.read), response.written
        written = codec.encode(message, question.version)
        if REPLACED not in written:  # for invalid UTF-8, Java and Python do not write the same number of U+FFFD
            assert (cls, question, written) == (cls, question, response.written)
    assert 0.2 < refused / len(sent) < 0.8


def test_kafka_reads_request_headers_as_far() -> None:
    random = Random(5)
    sent = []
    for cls, version in EVERY_VERSION:
        key, form = cls.__schema__.key, request_header_version(cls.__schema__.key, version)
        name = random.choice(("", "me", "größe")).encode()
        whole = struct.pack(">hhih", key, version, 7, len(name)) + name + b"\x01\x09\x02zz" * (form - 1)
        rest = damaged(whole[8:], random)  # the key and the version are not damaged, because they determine the form
        sent.append(Question(b"h", key, form, whole[:8] + rest))
    for question, response in zip(sent, ask(sent), strict=True):
        try:
            end = read_request_header(question.raw).end
        except ProtocolError:
            end = -1
        assert (question, end) == (question, response.read), response.written
