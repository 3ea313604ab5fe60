"""The command audits a log directory in S3. The server is moto, which runs in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from pyarrow import fs

from audit_spark.conftest import QUICK_JAVA
from audit_spark.stores import check_audit, make_logs
from wirekit import cache_folder, lacking

MOTO = "5.2.5"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1"}


def moto() -> Path:
    """Installs moto into an environment, and returns its Python. If moto cannot be fetched, the test is skipped."""
    cache = cache_folder()
    folder = cache / f"moto-{MOTO}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        cache.mkdir(parents=True, exist_ok=True)
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"moto[server]=={MOTO}"]
        for command in ([sys.executable, "-m", "venv", "--clear", folder], install):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
            if done.returncode:
                lacking("s3", f"moto cannot be installed: {done.stderr.strip()[-200:]}")
        (folder / "complete").touch()
    return python


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[str]:
    """Starts an empty S3, and returns its address."""
    said = tmp_path / "moto.log"
    command = [moto(), "-u", "-m", "moto.server", "-p", "0"]
    with said.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as server:
        try:
            while (found := re.search(r"Running on (http://127\.0\.0\.1:\d+)", said.read_text())) is None:
                assert server.poll() is None, said.read_text()
                time.sleep(0.05)
            yield found[1]
        finally:
            server.terminate()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_whole_audit_of_a_directory_in_an_s3(s3: str, tmp_path: Path) -> None:
    made = make_logs(tmp_path / "logs")
    upload(s3, tmp_path / "logs", "backup/logs")
    environment = CREDENTIALS | {"AWS_ENDPOINT_URL": s3}
    check_audit("s3a://backup/logs", made, "s3a://backup/logs", environment, tmp_path / "out")


def upload(s3: str, folder: Path, to: str) -> None:
    store = fs.S3FileSystem(
        endpoint_override=s3.removeprefix("http://"), scheme="http", region="us-east-1", access_key="any", secret_key="any",
        allow_bucket_creation=True,
    )  # fmt: skip
    store.create_dir(to.partition("/")[0])
    fs.copy_files(str(folder), to, destination_filesystem=store)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_executors_read_the_remote_segments_of_a_real_kafka_from_an_s3(s3: str, tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).parents[1] / "data" / "tiered-kafka-4.3.1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    upload(s3, tmp_path / "remote", "backup/tier")
    command = [sys.executable, "-m", "wirebroker", "audit", "--path", tmp_path / "node", "--remote-store", "s3a://backup/tier",
               "--out", tmp_path / "out"]  # fmt: skip
    environment = os.environ | CREDENTIALS | {"AWS_ENDPOINT_URL": s3, "JAVA_TOOL_OPTIONS": QUICK_JAVA}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stdout + run.stderr
    topics = json.loads((tmp_path / "out" / "summary.json").read_text())["topics"]
    assert [topics[name]["records"] for name in ("orders", "payments", "trimmed")] == [600, 400, 119]
