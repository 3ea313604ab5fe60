"""The listeners from the command line or from Kafka's equivalent settings."""

from __future__ import annotations

import argparse
import atexit
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from wirebroker.commands.usage import UsageError, address_in, pair
from wirebroker.net.listener import Address, Listener, one_each
from wirebroker.net.tls import CA, Tls, TlsError, make_certificates, tls_of
from wirebroker.security.protocols import SecurityProtocol, protocol_map, protocol_named

NAMES = {protocol.name: protocol for protocol in SecurityProtocol}
"""Kafka's default for listener.security.protocol.map."""
MAP, LISTENERS, ADVERTISED = "listener.security.protocol.map", "listeners", "advertised.listeners"


def listeners(arguments: argparse.Namespace, settings: Mapping[str, str], node_ids: Collection[int]) -> list[Listener]:
    """Returns every listener for which a socket is to be opened. Raises UsageError for a bad address, and for a name that two
    listeners have.
    """
    shown = _advertised(arguments.advertise, settings.get(ADVERTISED, ""))
    found = places(arguments, settings, shown)
    if "" in shown:
        shown.setdefault(next(iter(found)), shown.pop(""))
    if unknown := shown.keys() - found.keys():
        raise UsageError(f"--advertise {min(unknown)}: no listener has this name; there is {', '.join(found)}")
    given_tls = _given_tls(arguments, [host for (host, _), _ in found.values()] + [host for host, _ in shown.values()])
    made: list[Listener] = []
    for name, ((host, port), security) in found.items():
        try:
            tls = tls_of(settings, given_tls, name)
        except TlsError as wrong:
            raise UsageError(str(wrong)) from None
        made += one_each(node_ids, host or "0.0.0.0", port, shown.get(name), name, security, tls)
    return made


def places(
    arguments: argparse.Namespace, settings: Mapping[str, str], shown: dict[str, Address]
) -> dict[str, tuple[Address, SecurityProtocol]]:
    """The address and protocol of each listener of the first broker, by name; the advertised addresses go into `shown`.

    Raises UsageError for a bad address, and for a name that two listeners have.
    """
    protocols = NAMES | _protocols(settings.get(MAP, ""))
    bound = _kafka_addresses(settings[LISTENERS], LISTENERS) if LISTENERS in settings else {}
    controllers = settings.get("controller.listener.names", "CONTROLLER").upper().split(",")
    found = {name: (where, protocols.get(name)) for name, where in bound.items() if name not in controllers}
    given = [_given(text, shown) for text in arguments.listener]
    if not found and (arguments.host or arguments.port is not None or all(protocol is None for _, _, protocol in given)):
        found["PLAINTEXT"] = ((arguments.host or "127.0.0.1", 9092 if arguments.port is None else arguments.port), None)
    for name, where, protocol in given:
        if name in found:
            raise UsageError(f"--listener {name}: another listener has this name")
        found[name] = where, protocol or protocols.get(name)
    return {name: (where, protocol or SecurityProtocol.PLAINTEXT) for name, (where, protocol) in found.items()}


def _given_tls(arguments: argparse.Namespace, hosts: list[str]) -> Tls | None:
    """Returns the certificates that the flags name, or new self-made certificates. Raises UsageError."""
    if arguments.tls is None and arguments.tls_cert is None and (arguments.tls_key or arguments.tls_client_ca):
        raise UsageError("--tls-key and --tls-client-ca need --tls-cert")
    try:
        given = None
        if arguments.tls_cert is not None:
            given = Tls(arguments.tls_cert, arguments.tls_key)
        elif arguments.tls == "auto":
            folder = Path(tempfile.mkdtemp(prefix="wirebroker-tls-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            given = make_certificates(folder, sorted({"localhost", "127.0.0.1", *filter(None, hosts)}))
            print(f"certificate authority in {folder / CA}", flush=True)
        if given is not None:
            given = replace(given, client=arguments.tls_client, client_ca=arguments.tls_client_ca or given.client_ca)
        return given
    except TlsError as wrong:
        raise UsageError(str(wrong)) from None


def _given(text: str, shown: dict[str, Address]) -> tuple[str, Address, SecurityProtocol | None]:
    """`NAME=[PROTOCOL://]host:port[@host:port]`; the address after @ goes into `shown`."""
    name, where = pair(text, "--listener")
    bind, _, advertised = where.partition("@")
    protocol, mark, address = bind.rpartition("://")
    if advertised:
        shown[name.upper()] = address_in(advertised, "--listener")
    try:
        return name.upper(), address_in(address, "--listener"), protocol_named(protocol) if mark else None
    except ValueError as wrong:
        raise wrong if isinstance(wrong, UsageError) else UsageError(f"--listener {name}: {wrong}") from None


def _advertised(given: list[str], setting: str) -> dict[str, Address]:
    """The advertised addresses by listener; the address of the first listener is under ""."""
    found = _kafka_addresses(setting, ADVERTISED)
    for text in given:
        name, equals, where = text.rpartition("=")
        found[name.strip().upper() if equals else ""] = address_in(where.strip(), "--advertise")
    return found


def _kafka_addresses(texts: str, setting: str) -> dict[str, Address]:
    """`PLAINTEXT://0.0.0.0:29092,HOST://0.0.0.0:9092`. Raises UsageError."""
    found = {}
    for text in filter(None, map(str.strip, texts.split(","))):
        name, mark, where = text.partition("://")
        if not mark:
            raise UsageError(f"{setting}: {text!r} is not NAME://host:port")
        found[name.upper()] = address_in(where, setting)
    return found


def _protocols(text: str) -> dict[str, SecurityProtocol]:
    try:
        return protocol_map([entry for entry in text.split(",") if entry.strip()])
    except ValueError as wrong:
        raise UsageError(str(wrong)) from None
