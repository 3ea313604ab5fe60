"""Puts compiled modules into the wheel if WIREBROKER_COMPILE=1 asks for them; without this variable the wheel is pure
Python."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST = (3, 11)
"""The oldest Python that wirebroker supports. Older versions load this file, too, before pip checks `requires-python` and
prints the error. So the file imports only modules that these versions have."""


class CompiledModules(BuildHookInterface[Any]):
    """A hook of hatchling."""

    _work: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """If modules are compiled, returns the requirement for mypyc in the version that pyproject.toml pins."""
        if not self._asked or sys.version_info < OLDEST:
            return []
        needed: list[str] = self.metadata.config["dependency-groups"]["compile"]
        return needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the files for the wheel. Exits if this Python is too old."""
        if not self._asked or version == "editable":
            return
        if sys.version_info < OLDEST:
            sys.exit(f"wirebroker needs Python {'.'.join(map(str, OLDEST))} or newer; this is {sys.version.split()[0]}")
        self._work = tempfile.TemporaryDirectory(prefix="wirebroker-wheel-")
        made = Path(self._work.name)
        script = Path(self.root, "scripts", "compile_parts", "compiling.py")
        subprocess.run([sys.executable, str(script), "--into", str(made)], check=True)
        files = [path for path in made.rglob("*") if path.suffix in (".so", ".pyd")]
        build_data["force_include"] |= {str(path): path.relative_to(made).as_posix() for path in files}
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary files after the wheel has been written."""
        if self._work is not None:
            self._work.cleanup()

    @property
    def _asked(self) -> bool:
        return self.target_name == "wheel" and os.environ.get("WIREBROKER_COMPILE", "") not in ("", "0")
