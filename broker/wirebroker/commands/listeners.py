"""Reads the listeners from the command line, or from Kafka's equivalent settings."""

from __future__ import annotations

import argparse
import atexit
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from wirebroker.commands.usage import UsageError, address_in, pair
from wirebroker.core.configs import HOST
from wirebroker.net.listener import Address, Listener, canonical_host_name, one_each
from wirebroker.net.tls import CA, Tls, TlsError, make_certificates, tls_of
from wirebroker.security.protocols import SecurityProtocol, protocol_map, protocol_named

NAMES = {protocol.name: protocol for protocol in SecurityProtocol}
"""Kafka's default for listener.security.protocol.map."""
MAP, LISTENERS, ADVERTISED = "listener.security.protocol.map", "listeners", "advertised.listeners"
FORM = "NAME=[PROTOCOL://]HOST:PORT[@HOST:PORT], as INSIDE=SASL_PLAINTEXT://127.0.0.1:9093"


def listeners(
    arguments: argparse.Namespace, settings: Mapping[str, str], node_ids: Collection[int], tell: Callable[[str], None] = print
) -> list[Listener]:
    """Returns every listener that needs a socket. If certificates are made, calls `tell` with a line that names the file of
    their authority. Raises UsageError for a bad address, and for a name that two listeners have.
    """
    found = places(arguments, settings)
    shown = _advertised(arguments, settings, list(found))
    hosts = [host for (host, _), _ in found.values()] + [host for host, _ in shown.values()]
    given_tls = _given_tls(arguments, hosts, tell)
    made: list[Listener] = []
    for name, ((host, port), security) in found.items():
        try:
            tls = tls_of(settings, given_tls, name)
        except TlsError as wrong:
            raise UsageError(str(wrong)) from None
        made += one_each(node_ids, host or "0.0.0.0", port, shown.get(name), name, security, tls)
    return made


def places(arguments: argparse.Namespace, settings: Mapping[str, str]) -> dict[str, tuple[Address, SecurityProtocol]]:
    """Returns the address and protocol of each listener of the first broker, by the listener's name.

    Raises UsageError for a bad address, and for a name that two listeners have.
    """
    protocols = NAMES | _protocols(settings.get(MAP, ""))
    bound = {
        name: (_kafka_address(where, LISTENERS), protocols.get(name)) for name, where in _kafka_addresses(settings, LISTENERS)
    }
    found: dict[str, tuple[Address, SecurityProtocol | None]] = {
        name: place for name, place in bound.items() if name not in _controllers(settings)
    }
    given = [_given(text) for text in arguments.listener]
    if not found and (arguments.host or arguments.port is not None or not any("://" in bind for _, bind, _ in given)):
        found["PLAINTEXT"] = ((arguments.host or "127.0.0.1", 9092 if arguments.port is None else arguments.port), None)
    for name, bind, _ in given:
        if name in found:
            raise UsageError(f"--listener {name}: another listener has this name")
        protocol, mark, address = bind.rpartition("://")
        try:
            found[name] = address_in(address, "--listener"), protocol_named(protocol) if mark else protocols.get(name)
        except ValueError as wrong:
            raise wrong if isinstance(wrong, UsageError) else UsageError(f"--listener {name}: {wrong}") from None
    return {name: (where, protocol or SecurityProtocol.PLAINTEXT) for name, (where, protocol) in found.items()}


def advertised_address(text: str, source: str) -> Address:
    """Returns the host and the port that the broker advertises to clients. As in Kafka, a missing host stands for this
    machine's name, and port 0 stands for the port that is bound later. Raises UsageError, whose message names the flag or
    setting `source`.
    """
    host, port = _kafka_address(text, source)
    if host == "0.0.0.0":
        raise UsageError(f"{source}: Kafka does not advertise 0.0.0.0, because clients cannot connect to it; name a host")
    return host or canonical_host_name(), port


def _kafka_address(text: str, source: str) -> Address:
    host, port = address_in(text, source)
    if HOST.fullmatch(host) is None:
        raise UsageError(f"{source}: {text!r} is not host:port")
    return host, port


def _advertised(arguments: argparse.Namespace, settings: Mapping[str, str], known: list[str]) -> dict[str, Address]:
    """Returns the advertised addresses that flags and settings give, by the listener's name. `--advertise` has precedence over
    `--listener`, and `--listener` over Kafka's settings. Raises UsageError.
    """
    named = [(name, where, ADVERTISED) for name, where in _kafka_addresses(settings, ADVERTISED)]
    if not named and (old := arguments.old_address or old_address(settings)) is not None:
        named = [(known[0], old, "advertised.host.name")]
    if not named:
        named = [(name, where, LISTENERS) for name, where in _kafka_addresses(settings, LISTENERS) if _is_wildcard(where)]
    named = [each for each in named if each[0] not in _controllers(settings)]
    named += [(name, where, "--listener") for name, _, where in map(_given, arguments.listener) if where]
    for text in arguments.advertise:
        name, equals, where = text.rpartition("=")
        named.append((name.strip().upper() if equals else known[0], where.strip(), "--advertise"))
    chosen = {name: (where, source) for name, where, source in named}
    if unknown := [f"{source} {name}" for name, (_, source) in chosen.items() if name not in known]:
        raise UsageError(f"{unknown[0]}: no listener has this name; there is {', '.join(known)}")
    return {name: advertised_address(where, source) for name, (where, source) in chosen.items()}


def old_address(settings: Mapping[str, str]) -> str | None:
    """Returns the address in advertised.host.name and advertised.port, or None if they are missing. Kafka removed these
    settings in 3.0."""
    host, port = (settings.get(f"advertised.{each}", "").strip() for each in ("host.name", "port"))
    return f"{host}:{port or 0}" if host or port else None


def _given_tls(arguments: argparse.Namespace, hosts: list[str], tell: Callable[[str], None]) -> Tls | None:
    """Returns the certificates that the flags name, or new self-made certificates. Raises UsageError."""
    try:
        given = None
        if arguments.tls_cert is not None:
            given = Tls(arguments.tls_cert, arguments.tls_key)
        elif arguments.tls == "auto":
            folder = Path(tempfile.mkdtemp(prefix="wirebroker-tls-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            given = make_certificates(folder, sorted({"localhost", "127.0.0.1", *filter(None, hosts)}))
            tell(f"certificate authority in {folder / CA}")
        if given is not None:
            given = replace(given, client=arguments.tls_client, client_ca=arguments.tls_client_ca or given.client_ca)
        return given
    except TlsError as wrong:
        raise UsageError(str(wrong)) from None


def _given(text: str) -> tuple[str, str, str]:
    """Returns three parts of a `--listener`: the name, `[PROTOCOL://]host:port`, and the advertised address or "".

    Raises UsageError.
    """
    name, where = pair(text, "--listener", FORM)
    bind, _, advertised = where.partition("@")
    return name.upper(), bind, advertised


def _kafka_addresses(settings: Mapping[str, str], setting: str) -> list[tuple[str, str]]:
    """Returns the name and the address of each entry in `PLAINTEXT://0.0.0.0:29092,HOST://0.0.0.0:9092`. Raises UsageError."""
    found = {}
    for text in filter(None, map(str.strip, settings.get(setting, "").split(","))):
        name, mark, where = text.partition("://")
        if not mark:
            raise UsageError(f"{setting}: {text!r} is not NAME://host:port")
        if name.upper() in found:
            raise UsageError(f"{setting}: two listeners have the name {name.upper()}")
        found[name.upper()] = where
    return list(found.items())


def _controllers(settings: Mapping[str, str]) -> set[str]:
    """Returns the names of the controllers' listeners. The settings of a node may contain such listeners, but the broker does
    not open them."""
    return {name.strip().upper() for name in settings.get("controller.listener.names", "CONTROLLER").split(",")}


def _is_wildcard(where: str) -> bool:
    return where.rpartition(":")[0] in ("", "0.0.0.0")


def _protocols(text: str) -> dict[str, SecurityProtocol]:
    try:
        return protocol_map([entry for entry in text.split(",") if entry.strip()])
    except ValueError as wrong:
        raise UsageError(str(wrong)) from None
