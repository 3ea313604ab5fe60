"""Makes login messages of clients: tokens with odd headers, claims and keys, and messages of PLAIN and SCRAM."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

import jwt
from hypothesis import strategies as st

from kafkawire.disk.metadata import ScramCredential
from wirebroker.client.jaas import login_modules
from wirebroker.security.mechanisms import Challenge
from wirebroker.security.oauthbearer import OAuthBearer
from wirebroker.security.plain import Plain
from wirebroker.security.scram import BY_NAME, Scram, credential_of
from wirebroker.security.web_tokens import KeySet, SignedTokens, UnsecuredTokens

NOW = 1_800_000_000_000
SECRET = b"0123456789abcdef0123456789abcdef"
OCTETS = {"kty": "oct", "kid": "shared", "k": urlsafe_b64encode(SECRET).decode().rstrip("=")}
ALGORITHMS = ("none", "HS256", "RS256", "ES256", "EdDSA", "PS512", "ES512", "XX256", "")
LONG = (10**400, "shared", "alice")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(LONG),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def _objects(names: str, likely: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    one = st.sampled_from(names.split()).flatmap(lambda name: st.tuples(st.just(name), likely.get(name, JSON) | JSON))
    return st.lists(one, max_size=6).map(dict)


NAME = {"kid": st.just("shared")}
HEADERS = JSON | _objects("alg kid typ crit b64 zip", NAME | {"alg": st.sampled_from(ALGORITHMS)})
CLAIMS = JSON | _objects(
    "sub exp iat nbf scope aud iss jti", {"sub": st.just("alice"), "exp": st.integers(1_800_000_001, 2_000_000_000)}
)
KINDS = st.sampled_from(("oct", "RSA", "EC", "OKP"))
KEYS = JSON | st.just(OCTETS) | _objects("kty kid use alg k n e crv x y key_ops", NAME | {"kty": KINDS})
ENDS = st.sampled_from(("", "AAAA", "signed", "AAA", "é"))
PIECES = st.sampled_from((
    "n,,", "n=alice", ",r=x", ",", "a=", "=2C", "\0", "\1", "auth=Bearer ", "c=biws", ",p=", "AAAA", "==", "y,,", ",m=1",
    "tokenauth=true", "é", "\udcff", "9" * 5000,
))  # fmt: skip
MESSAGES = st.lists(PIECES, max_size=8).map("".join) | st.text()
JAAS = st.lists(st.sampled_from(("M", " required ", "a=", '"', "'", "\\", ";", "x", "user_a='b'")), max_size=9)
LOGINS = st.one_of(
    st.tuples(st.just("token"), HEADERS, CLAIMS, st.lists(KEYS, max_size=3), ENDS),
    st.tuples(st.just("messages"), st.lists(MESSAGES, min_size=1, max_size=3)),
    st.tuples(st.just("module"), JAAS.map("".join)),
)


@cache
def _credential() -> ScramCredential:
    return credential_of(BY_NAME["SCRAM-SHA-256"], "secret", b"salt")


def _part(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _token(header: Any, claims: Any, end: str) -> str:
    if end == "signed":
        return jwt.PyJWS().encode(json.dumps(claims).encode(), SECRET, "HS256", headers={"kid": "shared"})
    return f"{_part(header)}.{_part(claims)}.{end}"


def log_in(made: tuple[Any, ...]) -> None:
    """Passes the generated values to the code that reads such values. Raises ValueError for an invalid key set or login
    module.
    """
    if made[0] == "token":
        _, header, claims, keys, end = made
        _check(_token(header, claims, end), json.dumps({"keys": [*keys, OCTETS]}))
    elif made[0] == "messages":
        _send([each.encode("utf-8", "surrogatepass") for each in made[1]])
    else:
        login_modules(made[1])


def _check(token: str, keys: str) -> None:
    UnsecuredTokens(required_scope=("a",)).check(token, NOW)
    UnsecuredTokens().check(token, NOW)
    found = KeySet(keys)
    SignedTokens(lambda: found, lambda _: None).check(token, NOW)
    expecting = SignedTokens(lambda: found, lambda _: None, ("kafka",), "me")
    OAuthBearer(expecting.check).evaluate(f"n,,\1auth=Bearer {token}\1\1".encode(), NOW)


def _send(messages: list[bytes]) -> None:
    scram = Scram(BY_NAME["SCRAM-SHA-256"], "n", {"alice": _credential()}.get, lambda _: None)
    for mechanism in (Plain({"alice": "secret"}), scram, OAuthBearer(UnsecuredTokens().check)):
        for message in messages:
            if not isinstance(mechanism.evaluate(message, NOW), Challenge):
                break
