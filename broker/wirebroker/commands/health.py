"""`wirebroker health`: report whether a broker responds."""

from __future__ import annotations

import argparse
import os
import ssl
import sys
from contextlib import closing

from kafkawire.errors import WireError
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.printable import printable
from wirebroker.client.login import LoginFailed, log_in
from wirebroker.client.settings import Access, read_access
from wirebroker.client.wire import Connection, address_of
from wirebroker.commands.environment import from_environment
from wirebroker.commands.listeners import places
from wirebroker.commands.usage import pair
from wirebroker.common.complaints import complain
from wirebroker.net.listener import reachable
from wirebroker.security.protocols import SecurityProtocol

SECURED = "; if this listener has TLS or SASL, --command-config tells how to reach it"


def run(options: argparse.Namespace) -> int:
    """Connect to a broker, and print what it reports.

    Returns the exit code: 0 if the broker responds, 1 if it does not, 2 if the address or the settings are wrong.
    """
    try:
        access = read_access(options.command_config) if options.command_config else None
        if options.bootstrap is None:
            address, protocol = own_listener(options.serve())
        else:
            address, protocol = address_of(options.bootstrap), SecurityProtocol.PLAINTEXT
        tls = access.context() if access else _unchecked() if protocol.tls else None
    except ValueError as wrong:
        complain("health", wrong)
        return 2
    where = "{}:{}".format(*address)
    try:
        with closing(Connection(address, options.timeout, tls=tls)) as connection:
            told = _ask(connection, access or Access(), anonymous=access is None and protocol.sasl)
    except (OSError, WireError, LoginFailed) as broken:
        hint = SECURED if options.bootstrap and access is None else ""
        print(printable(f"{where} is not healthy: {broken}{hint}"), file=sys.stderr)
        return 1
    print(f"{where} is healthy: {told}")
    return 0


def own_listener(arguments: argparse.Namespace) -> tuple[tuple[str, int], SecurityProtocol]:
    """Returns the address at which `serve` listens with these flags and this environment. A listener without TLS is preferred.
    Raises UsageError."""
    from_environment(arguments, os.environ)
    found = places(arguments, dict(pair(text, "--config") for text in arguments.config))
    (host, port), protocol = min(found.values(), key=lambda place: (place[1].tls, place[1].sasl))
    return (reachable(host), port), protocol


def _ask(connection: Connection, access: Access, *, anonymous: bool) -> str:
    """Returns a text for the user: the number of brokers or, if this client cannot log in, the number of the broker's APIs."""
    if anonymous:
        response = connection.request(ApiVersionsRequest(), 0)
        return f"it offers {len(response.api_keys)} APIs; without a login, nothing else can be checked"
    log_in(connection, access)
    return f"{len(connection.request(MetadataRequest(topics=[]), 1).brokers)} broker(s)"


def _unchecked() -> ssl.SSLContext:
    """Returns a TLS context for a listener on this machine. The context accepts every certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
