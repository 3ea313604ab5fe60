"""JSON Web Tokens (RFC 7519): reads a token's claims, and checks whether the token is valid.

`UnsecuredTokens` has the rules of Kafka's OAuthBearerUnsecuredValidatorCallbackHandler, and `SignedTokens` has the rules of
BrokerJwtValidator. PyJWT checks signatures. Times are compared with the broker's clock.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from wirebroker.client.jaas import login_modules

if TYPE_CHECKING:
    from jwt import PyJWK

LATEST = (2**63 - 1) // 1_000_000
"""Kafka can handle a token that expires at most this many ms from now. Kafka holds this time as nanoseconds in a `long`. If a
token expires later, the number does not fit, and Kafka closes the connection.
"""
FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP", "HS": "oct"}
"""The type of key that an algorithm needs, by the first two letters of the algorithm's name."""
_BASE64 = re.compile(r"[A-Za-z0-9_-]*")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_OPTION = "unsecuredValidator"


class Believed(NamedTuple):
    """The principal in a token, and its expiry in ms since the epoch."""

    principal: str
    expires_at: int


class Disbelieved(NamedTuple):
    """The reason why a token was rejected, and the content of the response. `cause` is for the log and contains no part of the
    token.
    """

    cause: str
    scope: str | None = None
    """The scopes that the token lacks. If the token was rejected for another reason, this is None."""
    responds: bool = True
    """Tells whether the client gets a response. For some tokens, Kafka closes the connection instead."""

    @property
    def response(self) -> str:
        """Returns the error response in the format of RFC 7628."""
        status = "invalid_token" if self.scope is None else "insufficient_scope"
        return f'{{"status":"{status}"' + ("" if self.scope is None else f', "scope":"{self.scope}"') + "}"


Check = Callable[[str, int], Believed | Disbelieved]
"""A function that checks a token at the given time (ms since the epoch)."""


class _Wrong(ValueError):
    """Raised if a token is rejected."""


class _NoResponse(ValueError):
    """Raised for a token that makes Kafka close the connection without a response."""


# Reading


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_constant)


def _object(raw: bytes) -> dict[str, Any]:
    """If the bytes begin with a JSON object, returns its fields, else an empty dict. As in Jackson, the bytes after the object
    are ignored.
    """
    try:
        text = raw.decode(json.detect_encoding(raw)).lstrip(" \t\r\n")
        value = _DECODER.raw_decode(text)[0] if text else None
    except (ValueError, RecursionError):
        raise _Wrong("a part of the token is not JSON") from None
    return value if isinstance(value, dict) else {}


def _part(text: str) -> dict[str, Any]:
    if _BASE64.fullmatch(text) is None or len(text) % 4 == 1:
        raise _Wrong("a part of the token is not Base64")
    return _object(urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Wrong(f"its claim {name} is not a number")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _as_text(value: Any) -> str:
    """Returns a value as text, like Jackson's `asText`. The value is neither a number nor an array."""
    if isinstance(value, str):
        return value
    return "" if isinstance(value, dict) else json.dumps(value)


# Unsecured tokens


class UnsecuredTokens(NamedTuple):
    """Accepts tokens without a signature. The fields are the options in `sasl.jaas.config` whose names begin with
    `unsecuredValidator`.
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    skew_ms: int = 0

    @classmethod
    def configured(cls, login: str) -> UnsecuredTokens:
        """Returns a validator with the options of the login module in this `sasl.jaas.config`. Raises ValueError."""
        options = next((each.options for each in login_modules(login) if each.name.endswith(".OAuthBearerLoginModule")), {})
        principal, scope, required, skew = (
            options.get(_OPTION + name, "").strip() or default
            for name, default in (
                ("PrincipalClaimName", "sub"), ("ScopeClaimName", "scope"), ("RequiredScope", ""),
                ("AllowableClockSkewMs", "0"),
            )
        )  # fmt: skip
        if not skew.isascii() or not skew.isdigit():
            raise ValueError(f"{_OPTION}AllowableClockSkewMs={skew}: it must be a whole number, at least 0")
        scopes = tuple(required.split())
        for each in scopes:
            if _SCOPE.fullmatch(each) is None:
                raise ValueError(f"{_OPTION}RequiredScope has {each!r}, which is not a scope")
        return cls(principal, scope, scopes, int(skew))

    def check(self, token: str, now: int) -> Believed | Disbelieved:
        """Returns the client's principal, or the reason why the token is rejected."""
        try:
            principal, expires_at, scopes = self._read(token, now)
        except _Wrong as wrong:
            return Disbelieved(str(wrong))
        except _NoResponse as failure:
            return Disbelieved(str(failure), responds=False)
        missing = [each for each in self.required_scope if each not in scopes]
        if missing:
            return Disbelieved(f"the token lacks the scope {missing[0]}", f"[{', '.join(self.required_scope)}]")
        return Believed(principal, expires_at)

    def _read(self, token: str, now: int) -> tuple[str, int, Collection[str]]:
        parts = token.split(".")
        if len(parts) != 3 or ".." in token:
            raise _Wrong("the token does not have three parts")
        header, claims = _part(parts[0]), _part(parts[1])
        if "alg" not in header:
            raise _NoResponse("the header of the token has no alg")
        if header["alg"] != "none" or parts[2]:
            raise _Wrong("the token is signed, and the broker has no keys (sasl.oauthbearer.jwks.endpoint.url)")
        return self._principal(claims), self._expiry(claims, now), self._scopes(claims)

    def _principal(self, claims: Mapping[str, Any]) -> str:
        value = claims.get(self.principal_claim, "")
        if isinstance(value, list) or (isinstance(value, int | float) and not isinstance(value, bool)):
            raise _Wrong(f"its claim {self.principal_claim} is not a string")
        name = _as_text(value)
        if not name.strip():
            raise _Wrong(f"its claim {self.principal_claim} is empty")
        return name

    def _expiry(self, claims: Mapping[str, Any], now: int) -> int:
        issued, expires = _number(claims, "iat"), _number(claims, "exp")
        if expires is None:
            raise _Wrong("it has no exp")
        if issued is not None and 1000 * issued > now + self.skew_ms:
            raise _Wrong("its iat is later than the broker's clock")
        if now - self.skew_ms >= 1000 * expires:
            raise _Wrong("it has expired, by the broker's clock")
        if issued is not None and expires <= issued:
            raise _Wrong("its exp is earlier than its iat")
        return min(round(min(expires * 1000, 2.0**62)), LATEST + now)

    def _scopes(self, claims: Mapping[str, Any]) -> Collection[str]:
        value = claims.get(self.scope_claim, "")
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise _Wrong(f"its claim {self.scope_claim} is a number")
        return {_as_text(each).strip() for each in (value if isinstance(value, list) else [value])} - {""}


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """Returns a token without a signature and with these claims."""
    parts = (urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in ({"alg": "none"}, claims))
    return ".".join((*parts, ""))


# Signed tokens


class KeySet:
    """The public keys of the issuer of tokens (RFC 7517). Raises ValueError if the text is not a key set."""

    def __init__(self, text: str) -> None:
        try:
            read = json.loads(text)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        keys = read.get("keys") if isinstance(read, dict) else None
        if not isinstance(keys, list) or not all(isinstance(each, dict) for each in keys):
            raise ValueError("it has no list `keys`, or an element of the list is not an object")
        self._keys: list[dict[str, Any]] = [
            each for each in keys if all(isinstance(each.get(name), str | None) for name in ("kty", "kid", "use", "alg"))
        ]

    def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Returns the key whose id the token names. If the token names no id, returns the first key that fits the token's
        algorithm (jose4j's VerificationJwkSelector).
        """
        from jwt import PyJWK, PyJWKError

        fitting = [
            key
            for key in self._keys
            if key.get("kty") == FAMILIES.get(algorithm[:2], "")
            and key.get("use", "sig") == "sig"
            and (key_id is None or key.get("kid") == key_id)
        ]
        if len(fitting) > 1:
            fitting = [key for key in fitting if key.get("alg", algorithm) == algorithm]
        try:
            return PyJWK(fitting[0], algorithm) if fitting else None
        except (PyJWKError, KeyError):  # PyJWK raises KeyError for a symmetric key that lacks `k`
            return None


class SignedTokens(NamedTuple):
    """Accepts tokens that are signed with one of the keys. The fields are the settings whose names begin with
    `sasl.oauthbearer.`"""

    keys: Callable[[], KeySet]
    missing: Callable[[str], None]
    """A function that is called with the id of a key that the key set lacks."""
    audiences: Collection[str] = ()
    issuer: str = ""
    skew_s: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"

    def check(self, token: str, now: int) -> Believed | Disbelieved:
        """Returns the client's principal, or the reason why the token is rejected."""
        try:
            claims = self._verified(token)
            self._check_times(claims, now // 1000)
            self._check_names(claims)
            expires_at = _whole(claims, "exp") * 1000
            return Believed(self._subject(claims), expires_at)
        except _Wrong as wrong:
            return Disbelieved(str(wrong))
        except _NoResponse as failure:
            return Disbelieved(str(failure), responds=False)

    def _verified(self, token: str) -> dict[str, Any]:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            key_id, algorithm = header.get("kid"), header.get("alg")
            if not isinstance(algorithm, str):
                raise _Wrong("the alg in its header is missing, or is not a string")
            key = self.keys().find(key_id, algorithm)
            if key is None:
                if key_id is not None:
                    self.missing(key_id)
                raise _Wrong("no key of the key set fits the token")
            return _object(jwt.PyJWS().decode_complete(token, key, [algorithm])["payload"])
        except jwt.PyJWTError as wrong:
            raise _Wrong(str(wrong)) from None
        except RecursionError:
            raise _Wrong("its header is nested too deeply") from None

    def _check_times(self, claims: Mapping[str, Any], now: int) -> None:
        if now - self.skew_s >= _whole(claims, "exp"):
            raise _Wrong("it has expired, by the broker's clock")
        if _whole(claims, "iat") < 0:
            raise _Wrong("its iat is negative")
        if "nbf" in claims and now + self.skew_s < _whole(claims, "nbf"):
            raise _Wrong("it is not valid yet, by the broker's clock")

    def _check_names(self, claims: Mapping[str, Any]) -> None:
        for name in ("iss", "sub", "jti"):
            if not isinstance(claims.get(name, ""), str | None):
                raise _Wrong(f"its claim {name} is not a string")
        if self.issuer and claims.get("iss") != self.issuer:
            raise _Wrong("its iss is not sasl.oauthbearer.expected.issuer")
        audience = claims.get("aud")
        if audience is None and not self.audiences:
            return
        named = audience if isinstance(audience, list) else [audience]
        if not any(isinstance(each, str) and each in self.audiences for each in named):
            raise _Wrong("its aud is not in sasl.oauthbearer.expected.audience")

    def _subject(self, claims: Mapping[str, Any]) -> str:
        value = claims.get(self.scope_claim)
        scopes = value if isinstance(value, list) else [value] if isinstance(value, str) else []
        if any(not isinstance(each, str | None) for each in scopes):
            raise _NoResponse(f"its claim {self.scope_claim} has an element that is not a string")
        trimmed = [(each or "").strip() for each in scopes]
        if "" in trimmed or len(set(trimmed)) < len(trimmed):
            raise _Wrong(f"its claim {self.scope_claim} has an empty scope or a repeated scope")
        subject = claims.get(self.subject_claim)
        if not isinstance(subject, str) or not subject.strip():
            raise _Wrong(f"its claim {self.subject_claim} is missing or empty")
        return subject.strip()


def _whole(claims: Mapping[str, Any], name: str) -> int:
    found = _number(claims, name)
    if found is None:
        raise _Wrong(f"it has no {name}")
    return int(max(-(2.0**62), min(found, 2.0**62)))
