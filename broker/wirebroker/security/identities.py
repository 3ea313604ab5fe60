"""Reads the user names in SASL clients' tokens. No part of a password or other secret leaves this module."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode

from wirebroker.security.mechanisms import OAUTHBEARER, PLAIN
from wirebroker.security.scram import CLIENT_FIRST

SUBJECT = "sub"
"""The claim of a token that has the user's name, unless `sasl.oauthbearer.sub.claim.name` names another claim."""


def user_of(mechanism: str, token: bytes) -> str:
    """Returns the user's name in a client's token, or "" if this token has no name or cannot be read."""
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
    """Returns the subject in the JSON Web Token of a client's first message (RFC 7628)."""
    bearer = next(part for part in [*text.split("\x01"), ""] if part.lower().startswith("auth=bearer ") or not part)
    claims = bearer[len("auth=bearer ") :].strip().split(".")[1]
    told = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    subject = told.get(SUBJECT) if isinstance(told, dict) else None
    return subject if isinstance(subject, str) else ""
