"""Memory for records, in large pieces.

The first write to a page of memory costs more than copying records into it. Records go into large private mappings, which take
no memory before the first write; the system frees a mapping with the end of its last `memoryview`.

The system chooses the size of the pages. Huge pages would cost a sixth where the system has free ones. But a virtual
machine may have returned its free blocks of that size to its host, and then each huge page has to come back from there, at four
times the cost of small pages.
"""

from __future__ import annotations

import mmap

MAPPED_FROM = 2 * 1024 * 1024
"""The smallest size of a piece that is mapped rather than allocated."""
ARENA_SIZE = 16 * 1024 * 1024
_LARGEST_SHARED = ARENA_SIZE // 4
_ALIGNMENT = 64


def allocate(size: int) -> memoryview:
    """Returns a writable piece of `size` bytes, all zero."""
    if size < MAPPED_FROM:
        return memoryview(bytearray(size))
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return memoryview(mmap.mmap(-1, size))[:size]
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


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
