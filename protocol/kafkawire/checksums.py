"""The CRC-32C of record batches and of Kafka's files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _of_the_extension() -> Callable[..., int]:
    """Returns the function of crc32c's extension module. The package itself would import importlib.metadata to find its own
    version, which takes a fifteenth of a broker's start."""
    name = "crc32c._crc32c"
    package = PathFinder.find_spec("crc32c")
    spec = PathFinder.find_spec(name, package.submodule_search_locations) if package is not None else None
    if name in sys.modules or spec is None or spec.loader is None:
        from crc32c import crc32c

        return crc32c
    module = sys.modules[name] = module_from_spec(spec)  # an import of the package finds this module
    spec.loader.exec_module(module)
    found: Callable[..., int] = module.crc32c
    return found


crc32c = _of_the_extension()
"""crc32c(data, crc=0) returns the CRC-32C of a buffer. If bytes precede the buffer, `crc` is their CRC, and the result is the
CRC of all bytes."""
