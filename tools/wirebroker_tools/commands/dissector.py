"""`wirebroker dissector`: a dissector for Wireshark, in Lua."""

from __future__ import annotations

import argparse

from wirebroker_tools.decode.dissector import lua


def run(arguments: argparse.Namespace) -> int:
    """Print the dissector. Returns 0."""
    for line in lua():
        print(line)
    return 0
