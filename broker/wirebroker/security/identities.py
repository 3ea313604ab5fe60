"""Reads the user names in SASL clients' tokens. This module never returns any part of a password or other secret."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode

from wirebroker.security.mechanisms import OAUTHBEARER, PLAIN
from wirebroker.security.scram import CLIENT_FIRST

SUBJECT = "sub"
"""The claim with the user's name in a token, unless `sasl.oauthbearer.sub.claim.name` names another claim."""


def user_of(mechanism: str, token: bytes) -> str:
    """Returns the user's name in a client's token, or "" if the token contains no user name or cannot be read."""
    try:
        text = bytes(token).decode()
        if mechanism == PLAIN:
            return text.split("\0")[1]
        if mechanism == OAUTHBEARER:
            return _subject(text)
        match = CLIENT_FIRST.fullmatch(text)
    except (ValueError, IndexError, RecursionError):
        return ""
    return match[2].replace("=2C", ",").replace("=3D", "=") if match is not None else ""


def _subject(text: str) -> str:
    """Returns the subject of the JSON Web Token in a client's first message (RFC 7628)."""
    bearer = next(part for part in [*text.split("\x01"), ""] if part.lower().startswith("auth=bearer ") or not part)
    claims = bearer[len("auth=bearer ") :].strip().split(".")[1]
    told = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    subject = told.get(SUBJECT) if isinstance(told, dict) else None
    return subject if isinstance(subject, str) else ""
