"""SASL PLAIN (RFC 4616), like Kafka's PlainSaslServer."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from kafkawire.primitives import LIKE_JAVA
from wirebroker.security.mechanisms import Failure, Outcome, Success


class Plain:
    """Checks the client's password."""

    def __init__(self, passwords: Mapping[str, str], *, strict: bool = True) -> None:
        """Unless the mechanism is `strict`, the client's message may end with NULs."""
        self._passwords, self._strict = passwords, strict

    def evaluate(self, token: bytes, now: int) -> Outcome:
        """Evaluate the client's only message: `[authorization id] NUL user NUL password`."""
        text = token.decode(errors=LIKE_JAVA)
        parts = (text if self._strict else text.rstrip("\0")).split("\0", 3)
        if len(parts) != 3:
            return _failure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        for what, value in (("username", user), ("password", password)):
            if not value:
                return _failure(f"Authentication failed: {what} not specified")
        expected = self._passwords.get(user)
        # The time of the comparison depends only on the second argument, the client's password. So refusing an unknown user
        # takes as long as refusing a wrong password.
        same = hmac.compare_digest((expected or "").encode(), password.encode())
        if not same:
            why = "the password is wrong" if expected is not None else "there is no such user"
            return Failure(f"user {user!r}: {why}", "Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            return _failure("Authentication failed: Client requested an authorization id that is different from username")
        return Success(b"", user)


def _failure(message: str) -> Failure:
    return Failure(message, message)
