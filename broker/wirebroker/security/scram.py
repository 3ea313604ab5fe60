"""SCRAM (RFC 5802) with SHA-256 and SHA-512, like Kafka's ScramSaslServer and ScramMessages."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import NamedTuple

from kafkawire.disk.metadata import ScramCredential
from kafkawire.primitives import LIKE_JAVA
from wirebroker.security.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512, Challenge, Failure, Outcome, Success

LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
"""The smallest and the largest number of iterations that AlterUserScramCredentials accepts."""


class ScramMechanism(NamedTuple):
    """A SCRAM mechanism, its number in Kafka's messages, and its hash function."""

    name: str
    number: int
    digest: str


SHA_256 = ScramMechanism(SCRAM_SHA_256, 1, "sha256")
SHA_512 = ScramMechanism(SCRAM_SHA_512, 2, "sha512")
BY_NUMBER = {each.number: each for each in (SHA_256, SHA_512)}
BY_NAME = {each.name: each for each in (SHA_256, SHA_512)}

# The patterns of a name, a value and a nonce have possessive quantifiers, which prevent slow backtracking on a long text.
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_VALUE = r"[\x01-\x2b\x2d-\x7f]++"
_NONCE = r"[\x21-\x2b\x2d-\x7e]++"
_MORE = rf"(?:,[A-Za-z]++={_VALUE})*"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
CLIENT_FIRST = re.compile(rf"n,(?:a=({_NAME}))?,(?:m={_VALUE},)?n=({_NAME}),r=({_NONCE})({_MORE})")
CLIENT_FINAL = re.compile(rf"c=({_BASE64}),r=({_NONCE}){_MORE},p=({_BASE64})")


def credential_of(
    mechanism: ScramMechanism, password: str | bytes, salt: bytes, iterations: int = LEAST_ITERATIONS
) -> ScramCredential:
    """Returns the credential that a broker stores instead of the password."""
    raw = password.encode() if isinstance(password, str) else password
    return credential_of_salted(mechanism, hashlib.pbkdf2_hmac(mechanism.digest, raw, salt, iterations), salt, iterations)


def credential_of_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Returns the credential for a password that the client has already salted and hashed."""
    stored_key = hashlib.new(mechanism.digest, hmac.digest(salted, b"Client Key", mechanism.digest)).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", mechanism.digest), iterations)


class TokenOwner(NamedTuple):
    """The owner of a delegation token, and the credential and the expiry (ms since the epoch) of the token."""

    user: str
    credential: ScramCredential
    expires_at: int


class Scram:
    """The broker's side of SCRAM. The broker never gets the password, and proves to the client that it has the credential."""

    def __init__(
        self, mechanism: ScramMechanism, nonce: str, credential: Callable[[str], ScramCredential | None],
        token_owner: Callable[[str], TokenOwner | None] | None, *, checks_nonce: bool = True,
    ) -> None:  # fmt: skip
        """`nonce` is the broker's part of the nonce. `credential` returns the credential of a user, and `token_owner` returns
        the owner of a delegation token. Without `token_owner`, clients can log in only with a password.
        """
        self._mechanism = mechanism
        self._nonce = nonce
        self._credential_of = credential
        self._token_owner = token_owner
        self._checks_nonce = checks_nonce
        self._first: tuple[str, str] | None = None
        """The client's first message and the broker's first message; None before they are exchanged."""
        self._credential: ScramCredential
        self._success: Success

    def evaluate(self, token: bytes, now: int) -> Outcome:
        """Evaluate the client's message. The first call gets the client's first message, and the second call gets the final
        message."""
        message = token.decode(errors=LIKE_JAVA)
        return self._begin(message) if self._first is None else self._end(message)

    def _begin(self, message: str) -> Outcome:
        match = CLIENT_FIRST.fullmatch(message)
        if match is None:
            return Failure("the client's first SCRAM message is malformed")
        authorization_id, quoted, nonce, extensions = match.groups()
        name = quoted.replace("=2C", ",").replace("=3D", "=")
        if self._token_owner is not None and _by_token(extensions):
            owner = self._token_owner(name)
            if owner is None:
                return Failure(f"there is no delegation token {name!r}")
            credential: ScramCredential | None = owner.credential
            self._success = Success(b"", owner.user, owner.expires_at, by_token=True)
        else:
            credential = self._credential_of(name)
            self._success = Success(b"", name)
        if credential is None:
            return Failure(f"user {name!r} has no {self._mechanism.name} credential")
        if authorization_id not in (None, "", name):
            message = "Authentication failed: Client requested an authorization id that is different from username"
            return Failure(message, message)
        self._credential = credential
        response = f"r={nonce}{self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._first = f"n={quoted},r={nonce}{extensions}", response
        return Challenge(response.encode())

    def _end(self, message: str) -> Outcome:
        assert self._first is not None
        first, response = self._first
        match = CLIENT_FINAL.fullmatch(message)
        if match is None:
            return Failure("the client's final SCRAM message is malformed")
        binding, nonce, proof = match.groups()
        if self._checks_nonce and nonce != response.partition(",")[0].removeprefix("r="):
            return Failure("the client's final SCRAM message has another nonce than the broker's response")
        dialogue = f"{first},{response},c={binding},r={nonce}".encode()
        digest, held = self._mechanism.digest, self._credential
        signature = hmac.digest(held.stored_key, dialogue, digest)
        claimed = b64decode(proof)
        if len(claimed) != len(signature):  # ScramFormatter.xor throws
            return Failure(
                f"user {self._success.user!r}: the proof does not have the length of {self._mechanism.name}", responds=False
            )
        key = bytes(a ^ b for a, b in zip(claimed, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(digest, key).digest(), held.stored_key):
            return Failure(f"user {self._success.user!r}: the password is wrong")
        proved = b64encode(hmac.digest(held.server_key, dialogue, digest)).decode()
        return self._success._replace(token=f"v={proved}".encode())


def _by_token(extensions: str) -> bool:
    """Tells whether the client names a delegation token instead of a user (KIP-48)."""
    pairs = dict(each.partition("=")[::2] for each in extensions.split(",") if each)
    return pairs.get("tokenauth", "").lower() == "true"
