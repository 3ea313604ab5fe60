"""Compile the hot modules with mypyc: in place, or into a folder with the layout of a wheel.

    compiling.py            compile beside their sources in this checkout, where Python then finds them first
    compiling.py --clean    remove compiled modules, for every version of Python
    compiling.py --into DIR

pyproject.toml names the modules in `tool.wirebroker`. All compiled modules go into one library, so that they call each other
directly. mypyc reads the same types as `mypy --strict`, and the modules stay plain Python.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
from pathlib import Path
from shutil import copy2

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARY = "wirebroker"
"""The name of the library: `wirebroker__mypyc`, beside the packages. Each compiled module is a small file that loads the
library."""
SUFFIXES = ("so", "pyd")


def hot_modules() -> list[str]:
    """Returns the sources that are compiled, relative to the root."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sources: list[str] = project["tool"]["wirebroker"]["compiled"]
    return sources


def compile_into(folder: Path, sources: list[str], work: Path) -> list[Path]:
    """Compile these files. Returns the compiled files, relative to `folder`."""
    os.chdir(ROOT)
    from setuptools import Distribution  # imported before mypyc, which looks for setuptools and distutils
    from setuptools.command.build_ext import build_ext

    from mypyc.build import mypycify  # isort: skip

    # The types of other packages may be missing. Compiling does not need them; the check by `mypy` uses them.
    options = ["--ignore-missing-imports", "--no-warn-return-any", "--no-warn-unused-ignores", "--follow-imports=silent"]
    extensions = mypycify([*options, *sources], opt_level="3", debug_level="0", group_name=LIBRARY, target_dir=str(work / "c"))
    command = build_ext(Distribution({"name": LIBRARY, "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(folder), str(work / "objects")
    command.ensure_finalized()
    command.run()
    return sorted(path.relative_to(folder) for suffix in SUFFIXES for path in folder.rglob(f"*.{suffix}"))


def clean(sources: list[str]) -> None:
    """Remove the modules that were compiled in place."""
    for source in map(Path, sources):
        beside, library = ROOT / source.parent, ROOT / source.parts[0]
        for suffix in SUFFIXES:
            for stale in (*beside.glob(f"{source.stem}.*.{suffix}"), *library.glob(f"{LIBRARY}__mypyc.*.{suffix}")):
                stale.unlink()


def in_place(sources: list[str], work: Path) -> None:
    """Compile; then put each module beside its source, and put the library beside the first package."""
    made = work / "made"
    made.mkdir()
    compiled = compile_into(made, sources, work)
    clean(sources)
    roots = {Path(source).parts[1]: Path(source).parts[0] for source in sources}
    for path in compiled:
        copy2(made / path, ROOT / roots.get(path.parts[0], next(iter(roots.values()))) / path)


def main(arguments: list[str]) -> int:
    """Compile or clean."""
    sources = hot_modules()
    if arguments == ["--clean"]:
        clean(sources)
        return 0
    if arguments and (arguments[0] != "--into" or len(arguments) != 2):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="wirebroker-compile-") as work:
        if arguments:
            compile_into(Path(arguments[1]).resolve(), sources, Path(work))
        else:
            in_place(sources, Path(work))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
