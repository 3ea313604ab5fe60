"""If the disk is full, a command that writes a file prints one sentence, which names the file, and ends with the exit code
2.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requesting import produce_request
from wirebroker.commands.arguments import write_output
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
        client(kafka).request(produce_request("orders", batch(0, pid=7, epoch=0), acks=5), 9)
        refused = [row.as_json() for row in kafka.trace.events()]
    found = {name: folder / file for name, file in (
        ("trace", "trace.jsonl"), ("refused", "refused.jsonl"), ("frames", "frames.json"),
        ("one", "a.toml"), ("other", "b.toml"),
    )}  # fmt: skip
    found["trace"].write_text("\n".join(rows) + "\n", encoding="utf-8")
    found["refused"].write_text("\n".join(refused) + "\n", encoding="utf-8")
    decoded = subprocess.run([sys.executable, "-m", "wirebroker", "decode", REQUEST, "--json"], capture_output=True, check=True)
    found["frames"].write_bytes(decoded.stdout)
    for number, name in enumerate(("one", "other"), 1):
        settings = f'format = 1\n[[broker]]\nnode_id = 1\n[settings]\n"message.max.bytes" = "{number}000"\n'
        found[name].write_text(settings, encoding="utf-8")
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
    (FULL, 2, b"wirebroker releases: standard output: No space left on device"), ("a closed pipe", 0, b""),
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


@pytest.mark.parametrize("command", ["decode {request}", "encode {frames}", "trace show {trace}", "explain {trace}"])
def test_an_output_that_cannot_be_written_is_not_blamed_on_the_input(command: str, inputs: dict[str, str]) -> None:
    if not Path(FULL).exists():
        pytest.skip(f"there is no {FULL} here")
    words = command.format(request=REQUEST, **inputs).split()
    with open(FULL, "wb") as stdout:
        ended = subprocess.run([sys.executable, "-m", "wirebroker", *words], stdout=stdout, stderr=subprocess.PIPE, check=False)
    name = " ".join(words[:-1])
    assert ended.returncode == 2
    assert ended.stderr.decode().replace("wirebroker trace:", "wirebroker trace show:").splitlines() == [
        f"wirebroker {name}: standard output: No space left on device"
    ]


UNREAD = {"scenario show B1": 0, "scenario run B1 --client wire": 0, "explain {refused}": 1, "learn --compare {one} {other}": 1}


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("command", "code"), UNREAD.items())
def test_a_reader_that_has_gone_leaves_the_exit_code_as_it_is(
    command: str, code: int, unbuffered: str, inputs: dict[str, str]
) -> None:
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written, "wb") as stdout:
        ended = subprocess.run(
            [sys.executable, "-m", "wirebroker", *command.format(**inputs).split()],
            stdout=stdout, stderr=subprocess.PIPE, check=False, env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (code, b"")


def test_an_earlier_file_stays_until_the_new_one_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, written = tmp_path / "report.json", Path.write_bytes
    path.write_bytes(b"earlier")
    path.chmod(0o600)

    def full(self: Path, content: bytes) -> int:
        written(self, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device") as failed:
        write_output(str(path), b"the new content")
    assert failed.value.filename == str(path)
    assert ([each.name for each in tmp_path.iterdir()], path.read_bytes()) == (["report.json"], b"earlier")
    monkeypatch.setattr(Path, "write_bytes", written)
    write_output(str(path), b"the new content")
    assert path.read_bytes() == b"the new content"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes and links")
def test_a_pipe_or_a_link_is_written_and_stays(tmp_path: Path) -> None:
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    link.symlink_to(target)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(str(pipe), b"content")
    write_output(str(link), b"content")
    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert target.read_bytes() == b"content"


def test_a_file_in_a_folder_that_takes_no_other_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(self: Path, target: Path) -> Path:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    write_output(str(tmp_path / "mounted"), "content")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["content"]


@pytest.mark.parametrize("command", ["--help", "trace show {trace} --timeline", "scenario show B1", "serve --help"])
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_the_encoding_of_the_output_lacks_is_escaped(command: str, encoding: str, inputs: dict[str, str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "wirebroker", *command.format(**inputs).split()],
        capture_output=True, check=False, env=os.environ | {"PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, b"")
    if "--timeline" in command:
        assert rb"\u2588" in ended.stdout
