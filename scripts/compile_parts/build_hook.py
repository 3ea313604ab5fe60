"""Puts compiled modules into the wheel if WIREBROKER_COMPILE=1 asks for them; without this variable the wheel is pure
Python."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledModules(BuildHookInterface[Any]):
    """A hook of hatchling."""

    _work: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Returns the requirement for mypyc, in the version that pyproject.toml pins, if modules are compiled."""
        if not self._asked:
            return []
        project = tomllib.loads(Path(self.root, "pyproject.toml").read_text(encoding="utf-8"))
        needed: list[str] = project["dependency-groups"]["compile"]
        return needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the files for the wheel."""
        if not self._asked or version == "editable":
            return
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
