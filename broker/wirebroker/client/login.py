"""The login of a client with SASL: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Generator
from math import inf

from kafkawire.errors import ErrorCode, error_name
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.messages.sasl_handshake import SaslHandshakeRequest
from wirebroker.client.settings import Access
from wirebroker.client.wire import Connection

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SASL_AUTHENTICATE = SaslAuthenticateRequest.__schema__.key
RENEWED_AT = 0.85
"""Like Kafka's clients, a client logs in again after this part of the session's lifetime."""
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 10_000_000
"""The smallest and the largest number of SCRAM iterations that a client accepts.

RFC 7677 defines the smallest number. Because of the largest number, a broker cannot occupy the client for long.
"""

Tokens = Generator[bytes, bytes, bool]
"""A generator that yields each token of the client. After each token, the caller calls `send` with the broker's response. The
generator returns False if the broker has not proved that it knows the password. Only SCRAM asks for a proof."""


class LoginFailed(Exception):
    """Raised if the broker refuses the login, or does not prove that it knows the password. The message contains no secret."""


def log_in(connection: Connection, access: Access) -> None:
    """If the access uses SASL, log in on a connection. The connection may be new, or already logged in. Raises LoginFailed and
    the connection's errors.

    If the broker limits sessions (`connections.max.reauth.ms`), this function sets `session_ends`, the time of the next login.
    """
    if not access.mechanism:
        return
    if connection.login_version < 0:
        connection.login_version = _version(connection)
    response = connection.request(SaslHandshakeRequest(mechanism=access.mechanism), 1)
    if response.error_code != ErrorCode.NONE:
        offered = ", ".join(response.mechanisms) or "nothing"
        raise LoginFailed(f"it does not accept the mechanism {access.mechanism}; it offers {offered}")

    nonce = b64encode(secrets.token_bytes(18)).decode()
    extensions = ",tokenauth=true" if access.by_token else ""
    dialogue = tokens(access.mechanism, access.username, access.password, extensions, nonce)
    token = next(dialogue)
    try:
        while True:
            token = dialogue.send(_answer(connection, access, token))
    except StopIteration as end:
        if not end.value:
            raise LoginFailed("it does not prove that it knows the password, so it may be another server") from None


def _answer(connection: Connection, access: Access, token: bytes) -> bytes:
    """Send a token, and return the broker's token. Raises LoginFailed if the broker refuses the login."""
    told = connection.request(SaslAuthenticateRequest(auth_bytes=token), connection.login_version)
    if told.error_code != ErrorCode.NONE:
        why = told.error_message or error_name(told.error_code)
        raise LoginFailed(f"it refuses the login of {access.username}: {why}")
    ms = told.session_lifetime_ms
    connection.session_ends = time.monotonic() + ms / 1000 * RENEWED_AT if ms > 0 else inf
    return bytes(told.auth_bytes)


def _version(connection: Connection) -> int:
    """Returns the version of SaslAuthenticate to use.

    Responses of version 1 have the lifetime of the session. Brokers before Kafka 2.2 have only version 0.
    """
    offered = connection.request(ApiVersionsRequest(), 0).api_keys
    return min(max((each.max_version for each in offered if each.api_key == SASL_AUTHENTICATE), default=0), 1)


def tokens(mechanism: str, user: str, password: str, extensions: str = "", nonce: str = "wirebroker") -> Tokens:
    """Yields the tokens of a client that logs in. For OAUTHBEARER the password is a JSON Web Token. For a delegation token, the
    user and the password are its id and its HMAC, and the extensions are `,tokenauth=true`."""
    if mechanism in HASHES:
        return (yield from _scram(HASHES[mechanism], user, password, extensions, nonce))
    if mechanism == "PLAIN":
        yield f"\0{user}\0{password}".encode()
    elif (yield f"n,,\1auth=Bearer {password}\1\1".encode()):
        yield b"\1"
    return True


def _scram(digest: str, user: str, password: str, extensions: str, nonce: str) -> Tokens:
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}{extensions}"
    challenge = (yield f"n,,{first}".encode()).decode()
    if not challenge:
        return False  # the broker has refused the token
    told = dict(part.split("=", 1) for part in challenge.split(",") if "=" in part)
    try:
        salt, iterations, whole = b64decode(told["s"]), int(told["i"]), told["r"]
    except (KeyError, ValueError):
        raise LoginFailed("its response is not a SCRAM message") from None
    if not whole.startswith(nonce) or not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise LoginFailed("its response belongs to another login, or has an unsafe number of iterations")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    last = f"c=biws,r={whole}"
    signed = f"{first},{challenge},{last}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    end = (yield f"{last},p={b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    return hmac.compare_digest(end.partition("v=")[2].partition(",")[0], b64encode(expected).decode())
