"""Delegation tokens (KIP-48): credentials that a client creates for other clients, and that expire.

The broker does not keep a token's secret (its hmac), but computes it from the token's id and `delegation.token.secret.key`.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.disk.metadata import TokenImage

DIGEST = "sha512"


class Lifetimes(NamedTuple):
    """A token expires after `renewal` ms unless it is renewed, and lives for at most `most` ms."""

    renewal: int
    most: int

    def until(self, now: int, most_at: int, wanted: int, *, strict: bool) -> int:
        """Returns the expiry time of a token that is renewed now for `wanted` ms.

        If `wanted` is negative, `renewal` is used instead. In a `strict` release, `renewal` is also used if `wanted` is 0 or
        larger than `renewal`.
        """
        if not strict and wanted >= 0:
            return min(most_at, now + wanted)
        return min(most_at, now + (min(self.renewal, wanted) if wanted > 0 else self.renewal))


def secret_of(token_id: str, key: str) -> bytes:
    """Returns the secret with which a client logs in."""
    return hmac.digest(key.encode(), token_id.encode(), DIGEST)


def password_of(token_id: str, key: str) -> str:
    """Returns the secret as a password for SCRAM."""
    return b64encode(secret_of(token_id, key)).decode()


def has_expired(token: TokenImage, now: int) -> bool:
    """Tells whether the token has expired. An expired token cannot be renewed."""
    return expires_at(token) <= now


def expires_at(token: TokenImage) -> int:
    """Returns the first time at which the token counts as expired, in ms since the epoch."""
    return min(token.most_at, token.expires_at) + 1


def may_renew(token: TokenImage, principal: str) -> bool:
    """Tells whether a principal may renew and expire the token."""
    return principal == token.owner or principal in token.renewers


def concerned(token: TokenImage) -> tuple[str, ...]:
    """Returns the principals that own the token, requested it, or may renew it."""
    return token.owner, token.requester, *token.renewers


class DelegationTokens:
    """The tokens of a cluster, by their ids."""

    def __init__(self) -> None:
        self.by_id: dict[str, TokenImage] = {}
        self._ids: dict[bytes, str] = {}
        """The ids of the tokens by their secrets. The secret of a new token is computed at the next search."""
        self._key = ""
        """The key with which the secrets are computed."""

    def __iter__(self) -> Iterator[TokenImage]:
        return iter(self.by_id.values())

    def with_secret(self, secret: bytes, key: str) -> TokenImage | None:
        known = set(self._ids.values()) if key == self._key else set()
        if known != self.by_id.keys():
            held = {token_id: secret for secret, token_id in self._ids.items() if token_id in known}
            self._ids = {held.get(token_id) or secret_of(token_id, key): token_id for token_id in self.by_id}
            self._key = key
        return self.by_id.get(self._ids.get(secret, ""))
