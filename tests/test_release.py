"""Tests the files that a release publishes. `scripts/build-wheel` and `scripts/build-zipapp` also try out the files that they
build."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "scripts" / "release_parts"


def test_the_single_file_says_which_python_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "crc32c.py").write_text("raise ImportError\n", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); exec(open({str(RELEASE / 'preamble.py')!r}).read())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1
    version = ".".join(map(str, sys.version_info[:2]))
    assert run.stderr.startswith(f"wirebroker: this file has no compiled modules for Python {version} on {sys.platform}; ")


def test_what_builds_a_release_is_pinned_by_hash() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = (ROOT / "scripts" / "compile_parts" / "build.txt").read_text(encoding="utf-8").replace("\\\n", "")
    versions = dict(line.split()[0].split("==") for line in pinned.splitlines() if line and not line.startswith("#"))
    wanted = [Requirement(each) for each in project["build-system"]["requires"] + project["dependency-groups"]["compile"]]
    assert {each.name for each in wanted} <= versions.keys()
    assert all(each.specifier.contains(versions[each.name]) for each in wanted)
    for file in ("Dockerfile", "scripts/release_parts/tools.sh", "pyproject.toml"):
        assert "--require-hashes -r" in (ROOT / file).read_text(encoding="utf-8"), file


OLD_PYTHON = """
import sys, types
sys.modules["tomllib"] = None
path = "hatchling.builders.hooks.plugin.interface"
for end in (9, 18, 24, 31, 41):
    sys.modules[path[:end]] = types.ModuleType(path[:end])
sys.modules[path].BuildHookInterface = type("BuildHookInterface", (), {"__class_getitem__": classmethod(lambda cls, _: cls)})
sys.version_info, sys.version = (3, 9, 18, "final", 0), "3.9.18 (main)"
sys.path.insert(0, FOLDER)
from build_hook import CompiledModules
hook = CompiledModules()
hook.target_name = "wheel"
assert hook.dependencies() == []
hook.initialize("standard", {})
print("a pure wheel")
"""


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [("0", (0, "a pure wheel\n", "")), ("1", (1, "", "wirebroker needs Python 3.11 or newer; this is 3.9.18\n"))],
)
def test_the_build_hook_runs_in_a_python_that_is_too_old(asked: str, outcome: tuple[int, str, str]) -> None:
    """pip loads the hook first. Only after that does it compare `requires-python`, and say which Python wirebroker needs."""
    code = OLD_PYTHON.replace("FOLDER", repr(str(ROOT / "scripts" / "compile_parts")))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"WIREBROKER_COMPILE": asked})
    assert (run.returncode, run.stdout, run.stderr) == outcome
