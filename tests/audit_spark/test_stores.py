"""Whole audits of log directories in HDFS and in Azure's storage: Hadoop's own small cluster, and Azurite.

`scripts/remote-stores` fetches both and runs these tests. The tests are skipped if the stores were not fetched.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")
pytest.importorskip("hdfs_native", reason="the extra wirebroker[hdfs] is not installed")

from pyarrow import fs

from audit_spark.stores import check_audit, make_logs
from wirebroker_audit.logs.directory import NotALogDirectory, read_directory
from wirebroker_audit.reading import remote
from wirebroker_audit.reading.remote import RemotePath, place
from wirekit import cache_folder, lacking

CACHE = cache_folder()
HADOOP, AZURITE = CACHE / "hadoop-3.4.1", CACHE / "azurite-3.37.0" / "node_modules" / ".bin" / "azurite-blob"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's account and key, which are public."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[str]:
    """Starts an empty HDFS, and returns its address."""
    if shutil.which("java") is None or not HADOOP.is_dir():
        lacking("hdfs", "scripts/remote-stores fetches Hadoop's jars")
    command = ["java", "-cp", f"{HADOOP}/*", Path(__file__).with_name("MiniHdfs.java"), tmp_path / "hdfs"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as cluster:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()
        cluster.communicate()


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Starts Azurite, and returns the address of an empty container."""
    if not AZURITE.exists():
        lacking("azurite", "scripts/remote-stores fetches Azurite")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [AZURITE, "--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--blobPort", str(port)]
    with (tmp_path / "azurite.log").open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as server:
        while not listens(port):
            assert server.poll() is None, (tmp_path / "azurite.log").read_text()
            time.sleep(0.05)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
        remote._azure.cache_clear()
        yield f"abfs://backup@{ACCOUNT}.dfs.core.windows.net"
        server.terminate()
    remote._azure.cache_clear()


def listens(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def copied(logs: Path, address: str) -> Path:
    """Copies the directory into the store, and returns the copy's path."""
    there = place(address)
    assert isinstance(there, RemotePath)
    system, path = remote._system(there)
    system.create_dir(path)
    fs.copy_files(str(logs), path, destination_filesystem=system)
    return there


@pytest.mark.parametrize("store", ["hdfs", "azure"])
def test_a_whole_audit_of_a_directory_in_a_store(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    address = request.getfixturevalue(store) + "/logs"
    made = make_logs(tmp_path / "logs")
    there = copied(tmp_path / "logs", address)
    assert (there / "nowhere").exists() is False
    with pytest.raises(NotALogDirectory, match="nowhere does not exist"):
        read_directory(there / "nowhere")
    check_audit(address, made, str(there), {}, tmp_path / "out")


def test_a_store_that_does_not_respond_is_a_sentence() -> None:
    with pytest.raises(NotALogDirectory, match="Connection refused"):
        read_directory(place("hdfs://127.0.0.1:1/logs"))
