"""Memory for records, in large pieces.

The first write to a page of memory costs more than copying records into it. With pages of 2 MiB, first writes take a fifth of
the time that they take with pages of 4 KiB. Therefore records go into large private mappings, with huge pages where the
system has them. A mapping takes no memory before the first write. The system frees the mapping with the end of its last
`memoryview`.
"""

from __future__ import annotations

import contextlib
import mmap

HUGE_FROM = 2 * 1024 * 1024
"""The smallest size of a piece that is mapped rather than allocated: the size of a huge page."""
ARENA_SIZE = 16 * 1024 * 1024
_LARGEST_SHARED = ARENA_SIZE // 4
_ALIGNMENT = 64


def allocate(size: int) -> memoryview:
    """Returns a writable piece of `size` bytes, all zero."""
    if size < HUGE_FROM:
        return memoryview(bytearray(size))
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return memoryview(mmap.mmap(-1, size))[:size]
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(mapping)


class Arena:
    """Hands out pieces for frames that are too large for a shared buffer, many of them from one mapping."""

    def __init__(self) -> None:
        self._current = memoryview(b"")
        self._used = 0

    def take(self, size: int) -> memoryview:
        """Returns a writable piece of `size` bytes. The piece belongs to the caller while the caller holds it."""
        if size > _LARGEST_SHARED:
            return allocate(size)
        if self._used + size > len(self._current):
            self._current = allocate(ARENA_SIZE)
            self._used = 0
        piece = self._current[self._used : self._used + size]
        self._used += -(-size // _ALIGNMENT) * _ALIGNMENT
        return piece
