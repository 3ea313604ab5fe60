"""Memory for records, in large pieces.

The first write to a page of memory takes longer than copying records into a page that was written before. So records are stored
in large private mappings, which use no memory before the first write. The system frees a mapping when its last `memoryview` is
gone.

The system chooses the size of the pages. If the system has free huge pages, the first writes take only a sixth of the time. But
this module does not ask for huge pages: a virtual machine may have to get huge pages back from its host, and then the first
writes take four times as long as with small pages.
"""

from __future__ import annotations

import mmap

MAPPED_FROM = 2 * 1024 * 1024
"""A piece of at least this size in bytes is a mapping of its own. A smaller piece is a bytearray."""
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
    """Hands out pieces of large mappings. Frames that are too large for a shared buffer are read into such pieces."""

    def __init__(self) -> None:
        self._current = memoryview(b"")
        self._used = 0

    def take(self, size: int) -> memoryview:
        """Returns a writable piece of `size` bytes. The piece belongs to the caller as long as the caller refers to it."""
        if size > _LARGEST_SHARED:
            return allocate(size)
        if self._used + size > len(self._current):
            self._current = allocate(ARENA_SIZE)
            self._used = 0
        piece = self._current[self._used : self._used + size]
        self._used += -(-size // _ALIGNMENT) * _ALIGNMENT
        return piece
