"""The folders that are counted and checked: each package of the broker, and each other part of the repository."""

from __future__ import annotations

from pathlib import Path


def folders(root: Path) -> dict[str, list[Path]]:
    """Returns the folders and files to read, by the name under which they are counted."""
    broker = root / "broker" / "wirebroker"
    packages = sorted(path for path in broker.iterdir() if path.is_dir() and path.name != "__pycache__")
    named = {f"wirebroker/{package.name}": [package] for package in packages}
    named["wirebroker"] = sorted(path for path in broker.iterdir() if path.is_file())
    named |= {name: [root / name] for name in ("protocol", "pipeline", "docs", "scripts", "tests")}
    named["*.md"] = sorted(root.glob("*.md"))
    return named
