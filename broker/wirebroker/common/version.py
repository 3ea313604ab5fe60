"""The release of the package, and whether it is compiled."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

__version__ = "0.1.0"


def build() -> str:
    """Tells whether the most used modules are compiled to machine code.

    The function does not import these modules.
    """
    found = find_spec("kafkawire.record_walk")
    return "compiled" if found is not None and (found.origin or "").endswith(tuple(EXTENSION_SUFFIXES)) else "pure Python"
