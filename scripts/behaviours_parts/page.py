"""The page docs/reference/behaviours.md, and the tests whose names begin with a behaviour's id."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "behaviours.md"
ROW = re.compile(r"^\| ([A-E]\d+b?) \| (.+?) \| .*\|$", re.MULTILINE)


def tests_by_id() -> dict[str, list[str]]:
    """Returns the test files of each id. Names of tests begin with ids: `test_c2_c3_…` counts for C2 and C3."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        for match in re.finditer(r"def test((?:_[a-e]\d+b?)+)_", path.read_text(encoding="utf-8")):
            for name in match[1].strip("_").split("_"):
                found.setdefault(name[0].upper() + name[1:], set()).add(path.name)
    return {name: sorted(files) for name, files in found.items()}


def promises(text: str) -> dict[str, str]:
    """Returns the promise of each id on the page."""
    return {match[1]: match[2] for match in ROW.finditer(text)}


def with_tests(text: str) -> str:
    """Returns the page with the present test files in each row."""
    tests = tests_by_id()

    def row(match: re.Match[str]) -> str:
        files = ", ".join(
            f"[{name.removesuffix('.py').removeprefix('test_')}](../../tests/{name})" for name in tests.get(match[1], ())
        )
        return f"| {match[1]} | {match[2]} | {files} |"

    return ROW.sub(row, text)
