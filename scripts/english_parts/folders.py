"""The folders that are counted and checked: each package of the broker, and each other part of the repository."""

from __future__ import annotations

from pathlib import Path


def folders(root: Path) -> dict[str, list[Path]]:
    """Returns the folders and files to read, by the name under which they are counted."""
    named: dict[str, list[Path]] = {}
    for package in (root / "broker" / "wirebroker", root / "tools" / "wirebroker_tools"):
        inner = sorted(path for path in package.iterdir() if path.is_dir() and path.name != "__pycache__")
        named |= {f"{package.name}/{each.name}": [each] for each in inner}
        named[package.name] = sorted(path for path in package.iterdir() if path.is_file())
    named |= {name: [root / name] for name in ("protocol", "pipeline", "docs", "scripts", "tests")}
    named["*.md"] = sorted(root.glob("*.md"))
    return named
