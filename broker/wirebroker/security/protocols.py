"""The security protocols of listeners, by Kafka's names."""

from __future__ import annotations

from enum import Enum


class SecurityProtocol(Enum):
    """The protocol of a listener: how its connections are encrypted and authenticated
    (org.apache.kafka.common.security.auth.SecurityProtocol)."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        """Tells whether the bytes are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        """Tells whether clients authenticate by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


def protocol_named(text: str) -> SecurityProtocol:
    """Returns the protocol with this name, in upper or lower case. Raises ValueError."""
    try:
        return SecurityProtocol[text.strip().upper()]
    except KeyError:
        raise ValueError(f"{text!r} is not a security protocol; there are {', '.join(SecurityProtocol.__members__)}") from None


def protocol_map(entries: list[str]) -> dict[str, SecurityProtocol]:
    """Parses the entries of listener.security.protocol.map. Returns the protocol of each listener by the listener's name.
    Raises ValueError.
    """
    found = {}
    for entry in entries:
        name, colon, protocol = entry.partition(":")
        if not colon:
            raise ValueError(f"listener.security.protocol.map: {entry!r} is not NAME:PROTOCOL")
        found[name.strip().upper()] = protocol_named(protocol)
    return found
