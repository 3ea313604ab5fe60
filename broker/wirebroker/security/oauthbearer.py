"""SASL OAUTHBEARER (RFC 7628, KIP-255, KIP-768), like Kafka's OAuthBearerSaslServer."""

from __future__ import annotations

import re

from kafkawire.primitives import LIKE_JAVA
from wirebroker.security.mechanisms import Challenge, Failure, Outcome, Success
from wirebroker.security.web_tokens import Check, Disbelieved

HEARD = b"\1"
"""The client sends this message to confirm that it has received an error."""
_KEY, _VALUE = r"[A-Za-z]+", r"[\x21-\x7e \t\r\n]+"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
CLIENT_FIRST = re.compile(rf"n,(?:a=({_NAME}))?,\x01((?:{_KEY}={_VALUE}\x01)*)\x01")
_AUTH = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class OAuthBearer:
    """Accepts or rejects the client's token."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._disbelieved: Disbelieved | None = None

    def evaluate(self, token: bytes, now: int) -> Outcome:
        """Evaluate the client's message: a token, or the confirmation of an error. After an error, the client may send another
        token. If the client confirms the error, the dialogue ends.
        """
        refused, self._disbelieved = self._disbelieved, None
        if token == HEARD and refused is not None:
            return Failure(refused.cause, refused.response)
        match = CLIENT_FIRST.fullmatch(token.decode(errors=LIKE_JAVA))
        if match is None:
            return Failure("the client's first OAUTHBEARER message is malformed")
        authorization_id, pairs = match.groups()
        found = dict(each.split("=", 1) for each in pairs.split("\1") if each)
        auth = _AUTH.fullmatch(found.get("auth", ""))
        if auth is None:
            return Failure("the client's first OAUTHBEARER message has no auth=Bearer and a token")
        if auth[1].lower() != "bearer":
            return Failure("the client's token is not a bearer token", responds=False)
        return self._believe(auth[2], authorization_id, now)

    def _believe(self, token: str, authorization_id: str | None, now: int) -> Outcome:
        found = self._check(token, now)
        if isinstance(found, Disbelieved):
            if not found.responds:
                return Failure(found.cause, responds=False)
            self._disbelieved = found
            return Challenge(found.response.encode())
        if authorization_id not in (None, found.principal):
            message = (
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different from"
                f" the token's principal name ({found.principal})"
            )
            return Failure("the client asks for another name than the token has", message)
        return Success(b"", found.principal, found.expires_at)
