"""The listeners that the command line, or Kafka's settings of the same meaning, ask for."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping

from wirebroker.commands.usage import UsageError, address_in, pair
from wirebroker.net.listener import Address, Listener, one_each
from wirebroker.security.protocols import SecurityProtocol, protocol_map, protocol_named

NAMES = {protocol.name: protocol for protocol in SecurityProtocol}
"""Kafka's default for listener.security.protocol.map."""
MAP, LISTENERS, ADVERTISED = "listener.security.protocol.map", "listeners", "advertised.listeners"


def listeners(arguments: argparse.Namespace, settings: Mapping[str, str], node_ids: Collection[int]) -> list[Listener]:
    """Every socket to open. Raises UsageError for a bad address, and for a name that two listeners have."""
    protocols = NAMES | _protocols(settings.get(MAP, ""))
    shown = _advertised(arguments.advertise, settings.get(ADVERTISED, ""))
    places = _kafka_addresses(settings[LISTENERS], LISTENERS) if LISTENERS in settings else {}
    controllers = settings.get("controller.listener.names", "CONTROLLER").upper().split(",")
    found = {name: (where, protocols.get(name)) for name, where in places.items() if name not in controllers}
    given = [_given(text, shown) for text in arguments.listener]
    if not found and (arguments.host or arguments.port is not None or all(protocol is None for _, _, protocol in given)):
        found["PLAINTEXT"] = ((arguments.host or "127.0.0.1", 9092 if arguments.port is None else arguments.port), None)
    for name, where, protocol in given:
        if name in found:
            raise UsageError(f"--listener {name}: another listener has this name")
        found[name] = where, protocol or protocols.get(name)
    if "" in shown:
        shown.setdefault(next(iter(found)), shown.pop(""))
    if unknown := shown.keys() - found.keys():
        raise UsageError(f"--advertise {min(unknown)}: no listener has this name; there is {', '.join(found)}")
    return [
        listener
        for name, ((host, port), protocol) in found.items()
        for listener in one_each(
            node_ids, host or "0.0.0.0", port, shown.get(name), name, protocol or SecurityProtocol.PLAINTEXT
        )
    ]


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
    """The advertised addresses by listener; that of the first one, whatever its name, under ""."""
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
