"""Makes the tokens that a SASL client sends, for wirebroker's own wire client."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Generator

from wirebroker.security.mechanisms import OAUTHBEARER, PLAIN
from wirebroker.security.scram import BY_NAME

Tokens = Generator[bytes, bytes, None]
"""A generator that yields each token of the client. After each token, the caller calls `send` with the broker's response."""


def tokens(mechanism: str, user: str, password: str, extensions: str = "", nonce: str = "wirebroker") -> Tokens:
    """Yields the tokens of a client that logs in. For OAUTHBEARER the password is a JSON Web Token."""
    if mechanism == PLAIN:
        yield f"\0{user}\0{password}".encode()
    elif mechanism == OAUTHBEARER:
        if (yield f"n,,\1auth=Bearer {password}\1\1".encode()):
            yield b"\1"
    else:
        yield from _scram(mechanism, user, password, extensions, nonce)


def _scram(mechanism: str, user: str, password: str, extensions: str, nonce: str) -> Tokens:
    digest = BY_NAME[mechanism].digest
    quoted = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={quoted},r={nonce}{extensions}"
    response = (yield f"n,,{first}".encode()).decode()
    if not response:
        return  # the broker has refused the token
    parts = dict(each.split("=", 1) for each in response.split(","))
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), b64decode(parts["s"]), int(parts["i"]))
    key = hmac.digest(salted, b"Client Key", digest)
    last = f"c=biws,r={parts['r']}"
    signature = hmac.digest(hashlib.new(digest, key).digest(), f"{first},{response},{last}".encode(), digest)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    yield f"{last},p={b64encode(proof).decode()}".encode()
