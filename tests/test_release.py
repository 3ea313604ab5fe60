"""Tests the files that a release publishes. `scripts/build-wheel` and `scripts/build-zipapp` also try what they build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "scripts" / "release_parts"


def test_the_single_file_says_which_python_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "crc32c.py").write_text("raise ImportError\n", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); exec(open({str(RELEASE / 'preamble.py')!r}).read())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1
    version = ".".join(map(str, sys.version_info[:2]))
    assert run.stderr.startswith(f"wirebroker: this file has no compiled modules for Python {version} on {sys.platform}; ")
