"""Tests files that no other test reads: the files for GitHub and pre-commit, and an engine patch for the benchmark."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_pre_commit_runs_the_checks_of_scripts_test() -> None:
    (local,) = read(".pre-commit-config.yaml")["repos"]
    commands = [shlex.split(hook["entry"])[0].removeprefix(".venv/bin/") for hook in local["hooks"]]
    checks = [line.split()[0] for line in (ROOT / "scripts" / "test").read_text().splitlines() if line.startswith("    ")]
    assert commands == [check for check in checks if check not in ("set", "wait")]


def test_the_workflow_runs_ci_run_and_the_tests_elsewhere() -> None:
    jobs = read(".github/workflows/ci.yml")["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert [step["run"] for step in jobs["linux"]["steps"] if "run" in step] == [".ci/run"]
    assert jobs["others"]["strategy"]["matrix"]["os"] == ["macos-latest", "windows-latest"]
    assert jobs["others"]["steps"][-1]["run"].startswith("python -m pytest")


def test_a_release_has_compiled_wheels_for_every_python_that_is_tested() -> None:
    tested = read(".github/workflows/ci.yml")["jobs"]["linux"]["strategy"]["matrix"]["python"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    assert settings["build"].split() == [f"cp{version.replace('.', '')}-*" for version in tested]
    pure, compiled = read(".github/workflows/release.yml")["jobs"].values()
    assert "scripts/build-wheel" in [step.get("run") for step in pure["steps"]]
    assert {name.partition("-")[0] for name in compiled["strategy"]["matrix"]["os"]} == {"ubuntu", "macos", "windows"}


def test_every_client_suite_runs_daily() -> None:
    told = subprocess.run(
        [sys.executable, ROOT / "scripts" / "client-suites", "--help"], capture_output=True, text=True, check=True
    ).stdout
    names = re.findall(r"^  ([\w-]+) +\d\S* +\d broker", told.partition("suites:\n")[2], re.MULTILINE)
    workflow = read(".github/workflows/suites.yml")
    assert workflow[True]["schedule"] == [{"cron": "17 3 * * *"}], "YAML reads the key `on` as true, not as a text"
    assert workflow["jobs"]["suite"]["strategy"]["matrix"]["suite"] == sorted(names)


def test_actions_are_named_by_their_commits() -> None:
    """Workflows must name actions by commits, because a tag can be moved to other code."""
    for workflow in (ROOT / ".github" / "workflows").iterdir():
        for line in workflow.read_text(encoding="utf-8").splitlines():
            assert "uses:" not in line or re.search(r"uses: [\w./-]+@[0-9a-f]{40}  # v[\d.]+$", line), f"{workflow}: {line}"


def test_the_issue_forms_ask_for_something() -> None:
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        fields = yaml.safe_load(form.read_text(encoding="utf-8"))["body"]
        assert any(field.get("validations", {}).get("required") for field in fields), form.name


def test_the_engine_without_faults_is_compiled_from_the_engine_as_it_is() -> None:
    script = ROOT / "scripts" / "bench_parts" / "without_faults.py"
    assert subprocess.run([sys.executable, script, "--version"], capture_output=True, check=False).returncode == 0


def test_every_mutant_is_a_rule_of_the_broker() -> None:
    """A mutant is a patch. Without this test, nobody would notice that the code has changed and a patch does not apply."""
    script = [sys.executable, ROOT / "scripts" / "mutants", "--check"]
    assert subprocess.run(script, capture_output=True, text=True, check=False).stdout == ""


def python_scripts() -> list[str]:
    scripts = (path for path in (ROOT / "scripts").iterdir() if path.is_file())
    return sorted(path.name for path in scripts if path.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3"))


@pytest.mark.parametrize("name", python_scripts())
def test_a_script_without_its_environment_says_how_to_make_it(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-S", str(tmp_path / "scripts" / name), "--help"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30, env={"PATH": os.environ["PATH"]})
    if run.returncode == 2:
        begins = f"scripts/{name} needs the environment .venv, which `scripts/test --collect-only` makes; "
        assert (run.stderr.startswith(begins), run.stderr.count("\n")) == (True, 1), run.stderr
    else:
        assert (run.returncode, run.stderr) == (0, ""), "the script must run without the environment"
