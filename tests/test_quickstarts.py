"""The quick starts are small projects. The page about them must show the projects' files, and the projects' own tests must
pass.

`scripts/quickstarts` also runs the tests of Spark and .NET, which take minutes because they fetch and build other software.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from wirekit import lacking

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = ROOT / "docs" / "start" / "quickstarts"
PAGE = (ROOT / "docs" / "start" / "quickstarts.md").read_text(encoding="utf-8")
SCRIPT = ROOT / "scripts" / "quickstarts"
SOURCES = {".cs", ".go", ".java", ".js", ".rs"}
TESTS = {
    "dotnet": "OrdersTest.cs",
    "go": "orders_test.go",
    "java": "src/test/java/orders/OrdersTest.java",
    "node": "orders.test.mjs",
    "rust": "tests/orders.rs",
}


def test_the_page_shows_the_files_of_the_projects() -> None:
    shown = re.findall(r"^\[`(\S+)`\]\((\S+)\):\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert {Path(link).parts[1] for _, link, _ in shown} == {folder.name for folder in PROJECTS.iterdir()}
    for name, link, code in shown:
        assert link.endswith(f"/{name}")
        assert code == (ROOT / "docs" / "start" / link).read_text(encoding="utf-8"), link


def test_the_script_runs_every_project() -> None:
    run = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, timeout=50)
    for folder in PROJECTS.iterdir():
        assert folder.name in run.stdout


def test_the_page_says_how_long_a_project_is_explored() -> None:
    budget = re.search(r'^BUDGET = "(\d+)s"$', SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert budget is not None
    assert {f"{budget[1]} s"} == set(re.findall(r"(?:at most|limit of) (\d+ s)", PAGE))


def test_the_libraries_make_every_kind_of_fault() -> None:
    schema = json.loads((ROOT / "docs" / "reference" / "faults.schema.json").read_text(encoding="utf-8"))
    kinds = {each["properties"]["kind"]["const"] for each in schema["properties"]["fault"]["items"]["oneOf"]}
    places = {
        "clients/java/wirebroker-junit5/src/main/java/wirebroker/Fault.java": r'(?:new Fault|lasting)\("\w+"',
        "clients/go/faults.go": r'\.(?:fault|lasting)\("\w+"',
        "clients/rust/src/fault.rs": r'Self::(?:new|lasting)\("\w+"',
        "clients/dotnet/Fault.cs": r'(?:new Fault|=> new|Lasting)\("\w+"',
        "clients/node/index.d.ts": r'kind: "\w+"(?: \| "\w+")*',
    }
    for file, place in places.items():
        made = re.findall(r'"(\w+)"', " ".join(re.findall(place, (ROOT / file).read_text(encoding="utf-8"))))
        assert sorted(made) == sorted(kinds), file


IMPORT = re.compile(r'(?:import|use|using) [^(]|\t"')
OF_OTHERS = {"testImplementation", "mavenLocal", "Parallel"}
"""Functions of Gradle and of Go. Our sources do not define them."""


@pytest.mark.parametrize("language", ["dotnet", "go", "java", "node", "rust"])
def test_the_page_of_a_library_calls_what_its_sources_have(language: str) -> None:
    folder = ROOT / "clients" / language
    page = (folder / "README.md").read_text(encoding="utf-8")
    sources = [file.read_text(encoding="utf-8") for file in folder.rglob("*.*") if file.suffix in SOURCES]
    called = set(re.findall(r"([A-Za-z_]\w*)\(", " ".join(re.findall(r"`([^`\n]+)`", page)))) - OF_OTHERS
    assert len(called) > 5
    assert called - set(re.findall(r"\w+", " ".join(sources))) == set()


@pytest.mark.parametrize("language", TESTS)
def test_the_first_test_of_a_librarys_page_can_be_copied(language: str) -> None:
    """The page shows the test of the quick start. It may leave out lines, but no import that the shown lines need."""
    page = (ROOT / "clients" / language / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```(?:csharp|go|java|js|rust)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0].splitlines()
    shown = [line.removesuffix(" // the code under test") for line in shown]
    whole = (PROJECTS / language / TESTS[language]).read_text(encoding="utf-8").splitlines()
    rest = iter(whole)
    assert [line for line in shown if line not in rest] == []  # `in` moves on, so the order must be the same, too
    words = set(re.findall(r"\w+", "\n".join(line for line in shown if not IMPORT.match(line))))
    for line in (line for line in whole if IMPORT.match(line)):
        names = re.search(r"\{(.*)\}| (\w+) from|(\w+)[;\"]*$", line)
        assert names is not None
        assert line in shown or not words & set(re.findall(r"\w+", "".join(filter(None, names.groups())))), line


def test_the_libraries_pin_the_same_release() -> None:
    pins = sorted(file for file in (ROOT / "clients").rglob("release.json") if not {"target", "node_modules"} & set(file.parts))
    assert len(pins) == 5
    assert len({file.read_bytes() for file in pins}) == 1


@pytest.mark.slow  # linking a Go program and starting Maven take time
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("name", "what"), list(product(["node", "go", "java", "rust"], ["tests", "explore"])))
def test_the_tests_of_the_project_pass(name: str, what: str) -> None:
    flags = ["--explore"] if what == "explore" else []
    run = subprocess.run([sys.executable, SCRIPT, "--offline", *flags, name], capture_output=True, text=True, timeout=230)
    if run.returncode == 2:
        lacking(name, run.stdout)
    assert run.returncode == 0, run.stdout
