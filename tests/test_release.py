"""What a release publishes: built by the scripts, and tried in an environment that has nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "scripts" / "release_parts"


@pytest.mark.slow  # it installs build, twine, shiv and the package's own needs, each once
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform == "win32", reason="the scripts are for a POSIX shell")
def test_the_wheel_and_the_single_file_are_built_and_serve(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*cache", ".venv", ".git", "dist", "target", "node_modules"))
    for script, said in (
        ("build-wheel", "stores a record from kafka-python"),
        ("build-zipapp", "stores a record from the control"),
    ):
        run = subprocess.run(
            [copy / "scripts" / script], capture_output=True, text=True, env=os.environ | {"WIREBROKER_PYTHON": sys.executable}
        )
        if run.returncode and "No matching distribution found" in run.stderr:
            pytest.skip("the package index cannot be reached")
        assert run.returncode == 0, run.stdout + run.stderr
        assert said in run.stdout
    assert sorted("".join(file.suffixes[-1:]) for file in (copy / "dist").iterdir()) == [".gz", ".pyz", ".whl"]


def test_the_single_file_says_which_python_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "crc32c.py").write_text("raise ImportError\n", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); exec(open({str(RELEASE / 'preamble.py')!r}).read())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1
    version = ".".join(map(str, sys.version_info[:2]))
    assert run.stderr.startswith(f"wirebroker: this file has no compiled modules for Python {version} on {sys.platform}; ")
