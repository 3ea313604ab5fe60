"""Tests files that no other test reads: the files for GitHub and for pre-commit, and a patch of the engine for the
benchmark.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import sampling

ROOT = Path(__file__).resolve().parent.parent


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_pre_commit_runs_the_checks_of_scripts_test() -> None:
    (local,) = read(".pre-commit-config.yaml")["repos"]
    commands = [shlex.split(hook["entry"])[0].removeprefix(".venv/bin/") for hook in local["hooks"]]
    first_words = re.findall(r"^ +(\S+)", (ROOT / "scripts" / "test").read_text(), re.MULTILINE)
    installed = Path(sys.executable).parent  # this folder has the programs of the checks
    assert sorted(commands) == sorted(each for each in first_words if each != "python" and (installed / each).exists())


def test_the_workflow_runs_ci_run_and_the_tests_elsewhere() -> None:
    jobs = read(".github/workflows/ci.yml")["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert [step["run"] for step in jobs["linux"]["steps"] if "run" in step] == [".ci/run"]
    assert jobs["others"]["strategy"]["matrix"]["os"] == ["macos-latest", "windows-latest"]
    assert jobs["others"]["steps"][-1]["run"].startswith("python -m pytest")
    nightly = read(".github/workflows/suites.yml")["jobs"]["all"]
    assert [step["run"] for step in nightly["steps"] if "run" in step] == [".ci/run --nightly"]


def test_a_release_has_compiled_wheels_for_every_python_that_is_tested() -> None:
    tested = read(".github/workflows/ci.yml")["jobs"]["linux"]["strategy"]["matrix"]["python"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    assert settings["build"].split() == [f"cp{version.replace('.', '')}-*" for version in tested]
    jobs = read(".github/workflows/release.yml")["jobs"]
    pure, compiled = jobs["pure"], jobs["compiled"]
    before = [name for name in jobs if name != "publish"]
    assert jobs["publish"]["needs"] == before, "publishing waits for all other jobs"
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
    """A workflow must name the commit of each action, because a tag can be moved to other code."""
    for workflow in (ROOT / ".github" / "workflows").iterdir():
        for line in workflow.read_text(encoding="utf-8").splitlines():
            assert "uses:" not in line or re.search(r"uses: [\w./-]+@[0-9a-f]{40}  # v[\d.]+$", line), f"{workflow}: {line}"


def test_what_a_push_may_leave_out_exists() -> None:
    """If a folder is renamed but the pattern for it is not changed, changes in the folder no longer make the folder's tests
    run.
    """
    folders = ("broker", "pipeline", "protocol", "scripts", "tests", "tools")
    paths = [path for name in folders for path in (ROOT / name).rglob("*.py")] + [ROOT / "Dockerfile"]
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    tests = [
        f"{path.relative_to(ROOT).as_posix()}::{test}[0]"
        for path in (ROOT / "tests").rglob("test_*.py")
        for test in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    for kind in sampling.KINDS.values():
        assert any(re.search(kind.code, name) for name in names), kind
        assert any(re.search(kind.tests, test) for test in tests), kind
    assert [path for path in sampling.HOT if not (ROOT / path).is_file()] == []
    clients, duties = re.findall(r"for each in (.+); do", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    names = {f"client {name}" for name in clients.split()} | set(duties.split()) | {"suite", "duplicates"}
    assert sorted(names) == sorted(sampling.DUTIES)


def test_the_issue_forms_ask_for_something() -> None:
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        fields = yaml.safe_load(form.read_text(encoding="utf-8"))["body"]
        assert any(field.get("validations", {}).get("required") for field in fields), form.name


def test_the_engine_without_faults_is_compiled_from_the_engine_as_it_is() -> None:
    script = ROOT / "bench" / "without_faults.py"
    assert subprocess.run([sys.executable, script, "--version"], capture_output=True, check=False).returncode == 0


def test_every_mutant_is_a_rule_of_the_broker() -> None:
    """A mutant is a patch. Without this test, nobody would notice a patch that no longer applies to the code."""
    script = [sys.executable, ROOT / "scripts" / "mutants", "--check"]
    assert subprocess.run(script, capture_output=True, text=True, check=False).stdout == ""


def scripts() -> list[str]:
    """Returns the scripts that a user starts: scripts that the pages name, and scripts whose first line names a program."""
    pages = [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"] + list((ROOT / "docs").rglob("*.md"))
    named = {
        name
        for page in pages
        for name in re.findall(r"scripts/([a-z][\w-]*(?:\.py)?)(?![\w/])", page.read_text(encoding="utf-8"))
    }
    folder = ROOT / "scripts"
    own = {path.name for path in folder.iterdir() if path.is_file() and path.read_text(encoding="utf-8").startswith("#!")}
    absent = [name for name in named - own if not (folder / name).is_file() and not (folder / name).is_dir()]
    assert absent == [], "pages name scripts that do not exist"
    return sorted(own | {name for name in named if name.endswith(".py")})


def recorders() -> list[str]:
    """Returns the kinds of `scripts/record`: the modules of ecosystem/recording that have a function `main`."""
    modules = (ROOT / "ecosystem" / "recording").glob("*.py")
    return sorted(path.stem for path in modules if re.search(r"^def main\(", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_recorder_is_listed_and_every_named_recorder_exists() -> None:
    listed = re.findall(r"^    (\w+) {2,}", (ROOT / "scripts" / "record").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == recorders()
    folders = (".github", "broker", "docs", "ecosystem", "tests", "tools")
    files = [path for name in folders for path in (ROOT / name).rglob("*") if path.suffix in (".md", ".py")]
    named = {
        kind
        for path in [*ROOT.glob("*.md"), *files]
        if path.name != "CHANGELOG.md"
        for kind in re.findall(r"scripts/record ([a-z]+)", path.read_text(encoding="utf-8"))
    }
    assert named <= set(listed)


def run_script(folder: Path, name: str, *arguments: str, bare: bool) -> subprocess.CompletedProcess[str]:
    """Runs a script in its own session. Fails if the script leaves a process behind. If `bare` is true, a Python script runs
    with a Python that has no packages."""
    path = folder / "scripts" / name
    is_python = "python" in path.read_text(encoding="utf-8").partition("\n")[0] or path.suffix == ".py"
    if not is_python and shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    program = [sys.executable, *(["-S"] if bare else [])] if is_python else ["bash"]
    with subprocess.Popen(
        [*program, str(path), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True, env={"PATH": os.environ["PATH"]}, cwd=folder,
    ) as process:  # fmt: skip
        try:
            said, complaints = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            end_session(process.pid)
            raise
    assert not end_session(process.pid), f"{name} left a process behind"
    return subprocess.CompletedProcess(process.args, process.returncode, said, complaints)


def end_session(number: int) -> bool:
    """Kills the remaining processes of a session. Returns whether the session had a remaining process."""
    if os.name == "nt":
        return False
    try:
        os.killpg(number, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with those files of a clone that scripts need. The folder has no Python environment."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("scripts", "ecosystem/recording"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_without_uv_an_environment_has_the_versions_of_the_lock(clone: Path) -> None:
    (clone / ".venv").symlink_to(sys.prefix)
    try:
        command = ["bash", "-c", "source scripts/_env.sh; constraints"]
        lines = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True).stdout.splitlines()
    finally:
        (clone / ".venv").unlink()
    here = [each.name for each in map(Requirement, lines) if each.marker is None or each.marker.evaluate()]
    packages = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    assert sorted(here) == sorted({each["name"] for each in packages if "registry" in each["source"]})


COMMANDS = [(name,) for name in scripts()] + [("record", kind) for kind in recorders()]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_a_script_needs_no_environment(words: tuple[str, ...], clone: Path) -> None:
    run = run_script(clone, *words, "--help", bare=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert len(words) == 1 or f"scripts/{' '.join(words)}" in run.stdout, "this is the help of another script"
    assert run.stdout.count(" ") > 3, "it says nothing"
    assert not (clone / ".venv").exists(), "it made an environment, only to show its help"


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_a_script_starts_nothing(words: tuple[str, ...]) -> None:
    run = run_script(ROOT, *words, "--help", bare=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.count(" ") > 3, "it says nothing"


def test_a_script_without_its_environment_says_how_to_make_it(clone: Path) -> None:
    needing = [name for name in scripts() if re.search(r"^enter\(", (ROOT / "scripts" / name).read_text("utf-8"), re.MULTILINE)]
    assert len(needing) > 20
    for name in needing:
        run = run_script(clone, name, "--no-such-flag", bare=True)
        says = f"scripts/{name} needs the developers' environment in .venv, which `scripts/test --collect-only` makes.\n"
        assert (run.returncode, run.stderr) == (2, says)
