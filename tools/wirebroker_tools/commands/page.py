"""`wirebroker trace show --page`: a saved trace or capture on the live page."""

from __future__ import annotations

import argparse
import asyncio

from wirebroker.commands.serve import control_address, print_line, stop_signal
from wirebroker.commands.usage import UsageError


def show(arguments: argparse.Namespace) -> int:
    """Serve the page until a signal. Returns 0. Raises UsageError, OSError, ValueError."""
    if arguments.file == "-":
        raise UsageError("--page needs a file, because the page reads parts of the file again and again")
    try:
        from wirebroker.control.server import Control
        from wirebroker_tools.live.saved_file import SavedFile
        from wirebroker_tools.live.table import OF_FILES
    except ImportError as missing:
        raise UsageError(f"--page: {missing}") from None
    address = control_address(arguments.control or "0")

    async def serve() -> None:
        saved = SavedFile(arguments.file)
        control = Control(saved, OF_FILES)
        stop = stop_signal()
        try:
            await control.listen(*address)
            print_line(f"{saved.name} on {control.url}/live/")
            await stop.wait()
        finally:
            await control.close()

    asyncio.run(serve())
    return 0
