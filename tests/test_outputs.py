"""If the disk is full, a command that writes a file prints one sentence, which names the file, and ends with the exit code
2.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from requesting import produce_request
from wirebroker.commands.cli import main
from wirebroker.mock import MockKafka
from wirekit import batch, client

FULL = "/dev/full"
REQUEST = "0000000e0003000100000001ffff00000000"
WRITERS = {
    "conformance": ["conformance", "--only", "gap", "--json", FULL],
    "encode": ["encode", "{frames}", "--out", FULL],
    "explain": ["explain", "{trace}", "--json", FULL],
    "trace show": ["trace", "show", "{trace}", "--picture", "sequence", "--out", FULL],
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("inputs")
    with MockKafka(topics={"orders": 1}, trace="all", clock="frozen") as kafka:
        client(kafka).request(produce_request("orders", batch(0, pid=7, epoch=0)), 9)
        rows = [row.as_json() for row in kafka.trace.events()]
    found = {"trace": folder / "trace.jsonl", "frames": folder / "frames.json"}
    found["trace"].write_text("\n".join(rows) + "\n", encoding="utf-8")
    decoded = subprocess.run([sys.executable, "-m", "wirebroker", "decode", REQUEST, "--json"], capture_output=True, check=True)
    found["frames"].write_bytes(decoded.stdout)
    return {name: str(path) for name, path in found.items()}


@pytest.mark.skipif(not Path(FULL).exists(), reason=f"there is no {FULL} here")
@pytest.mark.parametrize("command", WRITERS)
def test_a_full_disk_is_one_sentence(command: str, inputs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word.format(**inputs) for word in WRITERS[command]]) == 2
    complaint = capsys.readouterr().err
    assert complaint.strip().endswith(f"{FULL}: No space left on device"), complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("command", ["releases list", "releases diff 2.8 4.3"], ids=["short", "long"])
@pytest.mark.parametrize(("output", "code", "complaint"), [
    (FULL, 2, b"wirebroker releases: No space left on device"), ("a closed pipe", 0, b""),
])  # fmt: skip
def test_an_output_that_cannot_be_written(command: str, output: str, code: int, complaint: bytes) -> None:
    if output == FULL:
        if not Path(FULL).exists():
            pytest.skip(f"there is no {FULL} here")
        written = os.open(FULL, os.O_WRONLY)
    else:
        read, written = os.pipe()
        os.close(read)
    with os.fdopen(written, "wb") as stdout:
        run = [sys.executable, "-m", "wirebroker", *command.split()]
        ended = subprocess.run(run, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr.strip()) == (code, complaint)
