"""Principals: who a client is (org.apache.kafka.common.security.auth.KafkaPrincipal)."""

from __future__ import annotations

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    """A client's identity: its kind, which is `User` for every client, and its name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""A client that has not said who it is."""
