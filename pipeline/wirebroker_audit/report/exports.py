"""The findings for other programs: files in their formats, and a topic of a cluster. No Spark here."""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkawire.batches import Record, build_batch
from wirebroker.client.settings import Access
from wirebroker_audit.report.formats import FORMATS, Row, read_findings, write_format
from wirebroker_audit.wire import PLAINTEXT, BrokerError, Client, ask

BATCH_BYTES, BATCH_RECORDS = 512 * 1024, 1000
"""A batch of findings has at most this many bytes and this many records. By default a broker accepts a batch of 1 MiB."""


@dataclass(frozen=True, slots=True)
class Exports:
    """The places to which findings are exported, in addition to the report. Each method raises BrokerError, or OSError with the
    file's name."""

    files: Mapping[str, Path]
    """by the format"""
    topic: str | None
    """`host:port/topic`"""
    access: Access = PLAINTEXT

    @classmethod
    def of(cls, options: argparse.Namespace, access: Access = PLAINTEXT) -> Exports:
        """Returns the exports that the command's flags request."""
        files = {name: Path(path) for name in FORMATS if (path := getattr(options, name)) is not None}
        return cls(files, options.findings_to, access)

    @property
    def flags(self) -> list[str]:
        """The flags that were given."""
        return [*(f"--{name}" for name in self.files), *(["--findings-to"] if self.topic else [])]

    def check(self) -> None:
        """Checks that files and records can be written to these places; called before the audit begins."""
        for path in self.files.values():
            if path.is_dir():
                raise IsADirectoryError(21, "this is a directory", str(path))
            if any(each.exists() and not each.is_dir() for each in path.parents):
                raise NotADirectoryError(20, "its parent is a file and not a directory", str(path))
            path.parent.mkdir(parents=True, exist_ok=True)
        if self.topic is not None:
            address, topic = _parts(self.topic)
            ask(address, (topic,), self.access)

    def write(self, summary: Mapping[str, Any], report: Path) -> None:
        """Write the files, and send the findings of the report."""
        for name, path in self.files.items():
            write_format(name, path, summary, report)
        if self.topic is not None:
            send(self.topic, summary, read_findings(report), self.access)


def send(where: str, summary: Mapping[str, Any], findings: Iterable[Row], access: Access = PLAINTEXT) -> None:
    """Append each finding as JSON, with a key that is the same in every audit of this log. Raises BrokerError."""
    address, topic = _parts(where)
    client = Client(address, access)
    try:
        client.refresh((topic,))
        numbers = client.numbers_of(topic)
        waiting: dict[int, list[Record]] = {}
        sizes = dict.fromkeys(numbers, 0)
        about = {name: summary[name] for name in ("origin", "time", "host", "version")}
        for key, value in _messages(findings, about):
            number = numbers[zlib.crc32(key) % len(numbers)]
            records = waiting.setdefault(number, [])
            if records and (sizes[number] + len(key) + len(value) > BATCH_BYTES or len(records) == BATCH_RECORDS):
                client.produce(topic, number, _batch(records))
                records.clear()
                sizes[number] = 0
            records.append(Record(len(records), 0, key, value))
            sizes[number] += len(key) + len(value)
        for number, records in waiting.items():
            client.produce(topic, number, _batch(records))
    finally:
        client.close()


def _messages(findings: Iterable[Row], about: Mapping[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    for each in findings:
        told = {**each, "evidence": json.loads(each["evidence"]), **about}
        yield each["id"].encode(), json.dumps(told).encode()


def _batch(records: Iterable[Record]) -> bytes:
    return build_batch(records, base_timestamp=time.time_ns() // 1_000_000)


def _parts(where: str) -> tuple[str, str]:
    address, slash, topic = where.rpartition("/")
    if not slash or not topic:
        raise BrokerError(f"--findings-to {where}: expected host:port/topic")
    return address, topic
