"""Listen on the ports that a suite's tests expect, and forward the connections to the brokers.

forwarding.py LISTEN=HOST:PORT… [-- WORD…] forward while the command runs, and end with its exit code
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress

HOST = "127.0.0.1"


async def main(words: list[str]) -> int:
    """Forward connections until the command ends. Without a command, forward until this process is killed."""
    pairs, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    ports = {int(listen): to for listen, _, to in (pair.partition("=") for pair in pairs)}
    async with AsyncExitStack() as stack:
        for listen, to in ports.items():
            await stack.enter_async_context(await _listen(listen, to))
        print("forwarding", flush=True)
        if command:
            return await (await asyncio.create_subprocess_exec(*command)).wait()
        await asyncio.Event().wait()
    return 0


async def _listen(port: int, to: str) -> asyncio.Server:
    host, _, upstream = to.rpartition(":")

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there, back = await asyncio.open_connection(host, int(upstream))
            await asyncio.gather(_pass(reader, back), _pass(there, writer))
        writer.close()

    return await asyncio.start_server(accepted, HOST, port)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def words(ports: Mapping[int, str]) -> list[str]:
    """Returns the command that forwards each of these ports to its address."""
    return [sys.executable, __file__, *(f"{listen}={to}" for listen, to in ports.items())]


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(main(sys.argv[1:])))
