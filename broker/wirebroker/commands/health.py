"""`wirebroker health`: whether a broker answers."""

from __future__ import annotations

import argparse
import sys

from kafkawire.errors import WireError
from kafkawire.messages.metadata import MetadataRequest
from wirebroker.conformance.client import ConnectionClosed, NoAnswer, WireClient


def run(options: argparse.Namespace) -> int:
    """Ask for metadata: 0 if it comes, 1 if not, 2 if the address is none."""
    host, _, port = options.bootstrap.split(",")[0].rpartition(":")
    if not host or not port.isdigit():
        print(f"wirebroker health: {options.bootstrap!r} is not host:port", file=sys.stderr)
        return 2
    client = WireClient(host, int(port), options.timeout)
    try:
        answer = client.request(MetadataRequest(topics=[]), 1)
    except (OSError, ConnectionClosed, NoAnswer, WireError) as broken:
        why = "no answer in time" if isinstance(broken, NoAnswer) else str(broken) or "the connection was closed"
        print(f"{host}:{port} is not healthy: {why}", file=sys.stderr)
        return 1
    finally:
        client.close()
    print(f"{host}:{port} is healthy: {len(answer.brokers)} broker(s)")
    return 0
