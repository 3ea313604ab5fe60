"""`spark-submit` with separate executor processes that get our packages only from `--py-files`."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sysconfig
import venv
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
    """Our packages as a zip, as docs/how-to/audit-spark/spark.md says."""
    for part in ("broker/wirebroker", "protocol/kafkawire", "pipeline/wirebroker_audit"):
        shutil.copytree(ROOT / part, folder / Path(part).name, ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.make_archive(str(folder), "zip", folder))


def foreign_python(folder: Path) -> Path:
    """A Python with the libraries but without our packages: path files in a folder that another path file names are ignored."""
    venv.create(folder, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    missing = subprocess.run([python, "-c", "import pyarrow, wirebroker_audit"], capture_output=True, text=True, cwd=folder)
    assert "No module named 'wirebroker_audit'" in missing.stderr
    return python


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("spark")
def test_executors_need_nothing_but_the_archive_and_the_libraries(tmp_path: Path) -> None:
    make_directory(tmp_path / "logs", seed=4, partitions=3, faults=(duplicate,))
    large = Writer("large", 0, random.Random(4))
    large.data(1, values=[random.Random(each).randbytes(SMALL_BYTES // 4) for each in range(5)])  # more than the driver reads
    large.save(tmp_path / "logs")
    provide_java()
    python = str(foreign_python(tmp_path / "env"))
    shutil.copy(ROOT / "pipeline/wirebroker_audit/__main__.py", tmp_path / "run_audit.py")
    zipped = packages(tmp_path / "wirebroker")
    command = [
        str(SPARK / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", "--conf", "spark.driver.host=127.0.0.1",
        "--conf", "spark.ui.enabled=false", "--py-files", str(zipped), "run_audit.py",
        "--path", str(tmp_path / "logs"), "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": QUICK_JAVA,
    }  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 1, run.stderr[-3000:]
    assert "duplicate" in run.stdout
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["complete"]
