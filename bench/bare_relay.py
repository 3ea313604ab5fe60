"""Forwards connections with as little work as Python can: it copies bytes both ways, and reads the size and header of each
frame."""

from __future__ import annotations

import argparse
import asyncio
import struct
from typing import cast

HEADER = struct.Struct(">ihhi")


class Side(asyncio.BufferedProtocol):
    """One side of a forwarded connection. This side reads nothing until the other side is connected."""

    def __init__(self, upstream: tuple[str, int] | None, other: Side | None = None) -> None:
        self._upstream, self.other = upstream, other
        self._view = memoryview(bytearray(256 * 1024))
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.other is not None:
            self.other.other = self
            self.other.transport.resume_reading()
        elif self._upstream is not None:
            self.transport.pause_reading()
            self._dialing = asyncio.ensure_future(
                asyncio.get_running_loop().create_connection(lambda: Side(None, self), *self._upstream)
            )

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        pos = min(self._left, nbytes)
        self._left -= pos
        while nbytes - pos >= HEADER.size:
            size = HEADER.unpack_from(self._view, pos)[0] + 4
            self._left = max(size - (nbytes - pos), 0)
            pos += size
        if self.other is not None:
            self.other.transport.write(bytes(self._view[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


async def main() -> None:
    """Listen until the process ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", required=True)
    host, _, port = parser.parse_args().upstream.rpartition(":")
    server = await asyncio.get_running_loop().create_server(lambda: Side((host, int(port))), "127.0.0.1", 0)
    print(f"listening on 127.0.0.1:{server.sockets[0].getsockname()[1]}\nready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
