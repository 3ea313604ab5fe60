"""`wirebroker health`: report whether a broker answers."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

from kafkawire.errors import WireError
from kafkawire.messages.metadata import MetadataRequest
from wirebroker.wire_client import WireClient


def run(options: argparse.Namespace) -> int:
    """Ask for metadata; the exit code: 0 with an answer, 1 without, 2 if the address is not host:port."""
    try:
        client = WireClient.at(options.bootstrap, options.timeout)
    except ValueError as wrong:
        print(f"wirebroker health: {wrong}", file=sys.stderr)
        return 2
    where = "{}:{}".format(*client.address)
    with closing(client):
        try:
            answer = client.request(MetadataRequest(topics=[]), 1)
        except (OSError, WireError) as broken:
            print(f"{where} is not healthy: {broken}", file=sys.stderr)
            return 1
    print(f"{where} is healthy: {len(answer.brokers)} broker(s)")
    return 0
