"""`spark-submit` with separate executor processes that get our packages only from `--py-files`."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import sysconfig
import venv
from contextlib import ExitStack
from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.conftest import QUICK_JAVA  # noqa: E402
from audit_spark.synthetic import Writer, duplicate, make_directory  # noqa: E402
from wirebroker_audit.logs.planning import SMALL_BYTES  # noqa: E402
from wirebroker_audit.spark.java import provide_java  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SPARK = Path(pyspark.__file__).parent


def packages(folder: Path) -> Path:
    """Packs our packages into a zip as docs/how-to/audit-spark/spark.md describes."""
    for part in ("broker/wirebroker", "protocol/kafkawire", "pipeline/wirebroker_audit", "tools/wirebroker_tools"):
        shutil.copytree(ROOT / part, folder / Path(part).name, ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.make_archive(str(folder), "zip", folder))


def foreign_python(folder: Path) -> Path:
    """Makes a Python environment that has the libraries but not our packages. (The `.pth` file adds a folder, and Python
    ignores `.pth` files in it.)
    """
    venv.create(folder, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    imports = [python, "-c", "import pyarrow, wirebroker_audit"]
    missing = subprocess.run(imports, capture_output=True, text=True, cwd=folder, env=environment(str(python)))
    assert "No module named 'wirebroker_audit'" in missing.stderr
    return python


def submitted(folder: Path, master: str, *options: str) -> None:
    """Audits a log that executors must read. The executors get our packages only from `--py-files`."""
    make_directory(folder / "logs", seed=4, partitions=3, faults=(duplicate,))
    large = Writer("large", 0, random.Random(4))
    large.data(1, values=[random.Random(each).randbytes(SMALL_BYTES // 4) for each in range(5)])
    large.save(folder / "logs")
    python = str(foreign_python(folder / "env"))
    shutil.copy(ROOT / "pipeline/wirebroker_audit/__main__.py", folder / "run_audit.py")
    zipped = packages(folder / "wirebroker")
    command = [
        str(SPARK / "bin" / "spark-submit"), "--master", master, "--conf", "spark.driver.host=127.0.0.1",
        "--conf", "spark.ui.enabled=false", *options, "--py-files", str(zipped), "run_audit.py",
        "--path", str(folder / "logs"), "--out", str(folder / "out"),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment(python))
    assert run.returncode == 1, run.stderr[-3000:]
    assert "duplicate" in run.stdout
    assert json.loads((folder / "out" / "summary.json").read_text())["complete"]


def environment(python: str) -> dict[str, str]:
    """Returns the environment variables of Spark's programs."""
    provide_java()
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": QUICK_JAVA,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("spark")
def test_executors_of_a_cluster_need_nothing_but_the_archive_and_the_libraries(tmp_path: Path) -> None:
    """Starts a master, a worker and two executors in separate processes, as in docs/how-to/audit-spark/sizing.md."""
    master = f"spark://127.0.0.1:{free_port()}"
    port = master.rpartition(":")[2]
    programs = (
        ("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0"),
        ("worker.Worker", "--cores", "2", "--memory", "2g", "--webui-port", "0", "--work-dir", str(tmp_path / "work"), master),
    )
    with ExitStack() as stack:
        for name, *arguments in programs:
            command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
            process = stack.enter_context(subprocess.Popen(command, env=environment(sys.executable), stderr=subprocess.DEVNULL))
            stack.callback(process.terminate)
        submitted(tmp_path, master, "--executor-cores", "1", "--executor-memory", "1g")


def free_port() -> int:
    """Returns a port that no program uses at the moment."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])
