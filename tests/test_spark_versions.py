"""Runs `scripts/spark-versions` with stand-ins for uv and Python. Checks which versions the script tests, and its exit code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "spark-versions"
UV = """#!/bin/sh
case "$1 $*" in
    *" venv "*) for folder do :; done; mkdir -p "$folder/bin"; ln -s "$TOOLS/stand-in" "$folder/bin/python" ;;
    *" export "*) printf '%s\\n' 'py4j==0.10.9.9' 'pyspark==4.0.4' 'rich==1.2' ;;
    *" -r "*) for file do :; done; echo "install $(tr '\\n' ' ' <"$file")" >>"$TOOLS/calls" ;;
esac
"""
STAND_IN = """#!/bin/sh
case "$*" in
    *pyspark.__version__*5.9.9*) exit 1 ;;
    *pytest*) echo "pytest ${0#$XDG_CACHE_HOME} $*" >>"$TOOLS/calls"; case "$0" in */4.2.1-*) exit 1 ;; esac ;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with two stand-ins: for `uv` (it installs nothing), and for the Python of an environment."""
    for name, text in (("uv", UV), ("stand-in", STAND_IN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(tools: Path, *arguments: str) -> tuple[int, list[str], list[str]]:
    """Runs scripts/spark-versions. Returns the exit code, the last line of output, and the calls of the stand-ins."""
    environment = {
        **os.environ, "TOOLS": str(tools), "XDG_CACHE_HOME": str(tools / "cache"), "WIREBROKER_NO_UV": "",
        "WIREBROKER_PYTHON": sys.executable, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, env=environment)
    calls = tools / "calls"
    return done.returncode, done.stdout.splitlines(), calls.read_text().splitlines() if calls.exists() else []


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_each_version_is_tried_whatever_becomes_of_the_one_before_it(tools: Path) -> None:
    code, said, calls = run(tools, "4.2.1", "5.9.9", "4.3.0", "--", "-k", "follow")
    assert code == 1
    assert said == ["PySpark 4.2.1: failed", "PySpark 5.9.9: cannot be installed", "PySpark 4.3.0: passed"]
    assert calls[0] == "install pyspark==4.2.1 rich==1.2 "
    tried = [call for call in calls if call.startswith("pytest")]
    assert ["/4.2.1-" in tried[0], "/4.3.0-" in tried[1], len(tried)] == [True, True, 2]
    assert all("tests/audit_spark -m  -p" in call and call.endswith("-k follow") for call in tried)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_by_itself_it_tries_the_versions_that_the_documentation_names(tools: Path) -> None:
    _, said, _ = run(tools)
    versions = [line.split()[1].rstrip(":") for line in said]
    text = (SCRIPT.parent.parent / "docs" / "how-to" / "audit-spark" / "spark.md").read_text(encoding="utf-8")
    assert len(versions) == 3
    assert [version for version in versions if version not in text] == []
    assert f"pyspark=={versions[0]}" in (SCRIPT.parent.parent / "pyproject.toml").read_text(encoding="utf-8")
