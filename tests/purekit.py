"""Loads the project's modules as pure Python, in addition to the compiled modules, in the same process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

OURS = ("kafkawire", "wirebroker", "wirebroker_audit", "fuzzing")


class _Sources(MetaPathFinder):
    """Finds the Python source of our modules instead of the compiled modules."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        *_, last = name.split(".")
        for folder in map(Path, sys.path if path is None else path):
            package = folder / last / "__init__.py"
            if package.exists():
                return spec_from_file_location(name, package, submodule_search_locations=[str(package.parent)])
            if (module := folder / f"{last}.py").exists():
                return spec_from_file_location(name, module)
        return None


class _OurSources(_Sources):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return super().find_spec(name, path, target) if name.partition(".")[0] in OURS else None


def _ours() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in OURS}


_pure: dict[str, ModuleType] = {}


@contextmanager
def pure() -> Iterator[None]:
    """Within this block, and in functions that it calls, every import of our modules loads a second, pure Python module."""
    others, finder = _ours(), _OurSources()
    for name in others:
        del sys.modules[name]
    sys.modules.update(_pure)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _pure.update(_ours())
        for name in _pure:
            sys.modules.pop(name, None)
        sys.modules.update(others)


def both(name: str) -> tuple[Any, Any]:
    """Returns a module twice: as Python normally imports it (compiled or not), and as pure Python."""
    with pure():
        slow = import_module(name)
    return import_module(name), slow


def is_compiled(function: object) -> bool:
    """Tells whether a function is compiled to machine code."""
    return not isinstance(function, FunctionType)
