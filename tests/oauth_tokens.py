"""Sends the same OAUTHBEARER logins to a real Kafka (scripts/record oauth) and to wirebroker.

`BROKERS` has the settings of several brokers. `attempts` yields the messages to one broker. An attempt is one SASL dialogue
with a list of tokens. The times in tokens are relative to the broker's clock. Responses are returned as plain data, with
lifetimes rounded up to 10 s.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from kafkawire.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.messages.sasl_handshake import SaslHandshakeRequest
from wirebroker.client.wire import Connection, ConnectionClosed

Plain = dict[str, Any]
RECORDED = "oauth-4.3.1.json"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


class Validation(NamedTuple):
    """How a broker checks tokens: the options of its login module, its settings, and whether tokens must be signed."""

    options: Mapping[str, str]
    settings: Mapping[str, str]
    signed: bool = False


BROKERS = {
    "unsecured": Validation({}, {}),
    "options": Validation(
        {
            "PrincipalClaimName": "name",
            "ScopeClaimName": "roles",
            "RequiredScope": "read write",
            "AllowableClockSkewMs": "5000",
        },
        {},
    ),
    "sessions": Validation({}, {"connections.max.reauth.ms": "60000"}),
    "signed": Validation({}, {}, signed=True),
    "expected": Validation(
        {},
        {
            "sasl.oauthbearer.expected.audience": "kafka,streams",
            "sasl.oauthbearer.expected.issuer": "https://issuer.example",
            "sasl.oauthbearer.clock.skew.seconds": "5",
            "sasl.oauthbearer.sub.claim.name": "user",
            "sasl.oauthbearer.scope.claim.name": "roles",
        },
        signed=True,
    ),
}


# Keys


@cache
def keys() -> dict[str, Any]:
    """Returns private keys by name. The broker's key set does not have `stranger`."""
    curve = ec.SECP256R1()
    return {
        "rsa": rsa.generate_private_key(65537, 2048), "other": rsa.generate_private_key(65537, 2048),
        "ec": ec.generate_private_key(curve), "ed": ed25519.Ed25519PrivateKey.generate(), "shared": b"0123456789abcdef" * 2,
        "stranger": ec.generate_private_key(curve), "nameless": ec.generate_private_key(curve),
        "encrypting": ec.generate_private_key(curve),
    }  # fmt: skip


def key_set() -> str:
    """Returns the public keys as a JSON Web Key Set. The set also has a key that cannot be used."""
    found = keys()

    def public(kind: Any, name: str, **more: str) -> Plain:
        return json.loads(kind.to_jwk(found[name].public_key())) | {"kid": name} | more

    made = [
        public(jwt.algorithms.RSAAlgorithm, "rsa", use="sig", alg="RS256"), public(jwt.algorithms.RSAAlgorithm, "other"),
        public(jwt.algorithms.ECAlgorithm, "ec", use="sig"), public(jwt.algorithms.OKPAlgorithm, "ed"),
        public(jwt.algorithms.ECAlgorithm, "encrypting", use="enc"),
        public(jwt.algorithms.ECAlgorithm, "nameless"), {"kty": "nonsense", "kid": "nonsense"},
        {"kid": "kindless"}, {"kty": ["EC"], "kid": "kinds"}, {"kty": 5}, {"kty": "RSA", "kid": "hollow"},
        public(jwt.algorithms.ECAlgorithm, "ec", kid="uses") | {"use": ["sig"]},
        public(jwt.algorithms.ECAlgorithm, "ec", kid="algs") | {"alg": ["ES256"]},
        public(jwt.algorithms.ECAlgorithm, "ec") | {"kid": 7},
        {"kty": "oct", "kid": "shared", "k": urlsafe_b64encode(found["shared"]).decode().rstrip("=")},
    ]  # fmt: skip
    del made[5]["kid"]
    return json.dumps({"keys": made})


# Tokens


def part(value: Any) -> str:
    """Encodes a part of a token (bytes, text or JSON) as Base64."""
    raw = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else json.dumps(value).encode()
    return urlsafe_b64encode(raw).decode().rstrip("=")


def unsecured(claims: Any, header: Any = None, signature: str = "") -> str:
    """Returns an unsecured token, by default with an empty signature."""
    return f"{part({'alg': 'none'} if header is None else header)}.{part(claims)}.{signature}"


def first(token: str, authorization_id: str = "", **extensions: str) -> bytes:
    """Returns a client's first message."""
    name = f"a={authorization_id}" if authorization_id else ""
    more = "".join(f"\1{key}={value}" for key, value in extensions.items())
    return f"n,{name},\1auth=Bearer {token}{more}\1\1".encode()


Attempts = Iterator[tuple[str, list[bytes]]]


def attempts(broker: str, now: float) -> Attempts:
    """Yields the name and the messages of each dialogue with a broker. `now` is in seconds."""
    yield from {"unsecured": _unsecured, "options": _options, "sessions": _sessions, "signed": _signed, "expected": _expected}[
        broker
    ](now)


def _unsecured(now: float) -> Attempts:
    good = {"sub": "alice", "exp": now + 600}
    for name, claims in _claims(now).items():
        yield f"claims: {name}", [first(unsecured(claims))]
    for name, header in {
        "alg absent": {}, "alg RS256": {"alg": "RS256"}, "alg null": {"alg": None}, "alg NONE": {"alg": "NONE"},
        "more": {"alg": "none", "typ": "JWT", "crit": ["x"]}, "a list": ["none"], "not JSON": "none", "nothing": "",
        "trailing": '{"alg":"none"} more', "alg a list": {"alg": ["none"]}, "alg a number": {"alg": 5},
        "alg an object": {"alg": {"none": 1}}, "alg true": {"alg": True}, "a number": "5", "null": "null",
    }.items():  # fmt: skip
        yield f"header: {name}", [first(unsecured(good, header))]
    token = unsecured(good)
    head, body, _ = token.split(".")
    for name, text in {
        "signature": f"{head}.{body}.AAAA", "two parts": f"{head}.{body}", "four parts": f"{token}.", "one part": head,
        "five parts": f"a.{token}a", "dots": "..", "dot at the end": f"{head}.{body}..", "padded": f"{head}==.{body}.",
        "plus": f"{head}+.{body}.", "one sign": f"a.{body}.", "not Base64": f"{head}.~~~~.",
    }.items():  # fmt: skip
        yield f"token: {name}", [first(text)]
    for name, raw in _messages(token).items():
        yield f"message: {name}", [raw]
    bad = first(unsecured({"sub": "alice", "exp": now - 600}))
    yield "answer: \\x01", [bad, b"\1"]
    yield "answer: a good token", [bad, first(token)]
    yield "answer: twice bad", [bad, bad, b"\1"]
    yield "answer: something else", [bad, b"x"]
    yield "answer: nothing", [bad, b""]
    yield "\\x01 alone", [b"\1"]


def _claims(now: float) -> dict[str, Any]:
    good = {"sub": "alice", "exp": now + 600}
    changed: dict[str, Plain] = {
        "good": {}, "short": {"exp": now + 15}, "fractions": {"exp": now + 595.5, "iat": now - 0.5}, "no exp": {"exp": None},
        "expired": {"exp": now - 10}, "exp as text": {"exp": str(now + 600)}, "exp true": {"exp": True},
        "exp negative": {"exp": -1},
        "exp 1e12": {"exp": 10**12}, "exp 1e18": {"exp": 10**18}, "exp 1e400": {"exp": 10**400},
        "exp 9e15": {"exp": 9_000_000_000_000_000},
        "iat": {"iat": now - 600}, "iat later": {"iat": now + 60}, "iat after exp": {"iat": now + 601},
        "iat as text": {"iat": "x"},
        "iat is exp": {"iat": now + 600}, "nbf later": {"nbf": now + 300}, "sub empty": {"sub": ""}, "sub blank": {"sub": "  "},
        "sub a number": {"sub": 5}, "sub true": {"sub": True}, "sub null": {"sub": None}, "sub a list": {"sub": ["a"]},
        "sub an object": {"sub": {"a": 1}}, "sub other letters": {"sub": "Zoë ✓"}, "sub spaced": {"sub": " alice "},
        "scope": {"scope": "a b"}, "scopes": {"scope": ["a", " b ", ""]}, "scope a number": {"scope": 5},
        "scope an object": {"scope": {}},
        "aud": {"aud": "kafka"}, "more": {"x": {"y": [1, None]}},
    }  # fmt: skip
    found: dict[str, Any] = {name: good | change for name, change in changed.items()}
    found["no sub"] = {"exp": now + 600}
    found["exp absent"] = {"sub": "alice"}
    found |= {"a list": [good], "a text": '"alice"', "not JSON": "{", "nothing": "", "not UTF-8": b'{"sub":"\xff"}'}
    text = json.dumps(good)
    return found | {
        "trailing": text + " more", "twice": text[:-1] + ', "sub": "bob"}', "NaN": text[:-1] + ', "x": NaN}',
        "comment": "/**/" + text,
        "deep": text[:-1] + ', "x": ' + "[" * 500 + "]" * 500 + "}",
        "deeper": text[:-1] + ', "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "BOM": "\ufeff" + text, "UTF-16": text.encode("utf-16-be"), "single quotes": text.replace('"', "'"),
        "infinite": text[:-1] + ', "iat": 1e999}',
    }  # fmt: skip


def _messages(token: str) -> dict[str, bytes]:
    text = first(token).decode()
    return {
        name: raw.encode("latin-1")
        for name, raw in {
            "empty": "", "NUL": "\0", "plain": "\0alice\0secret", "no separator at the end": text[:-1], "one more": text + "\1",
            "no header": text[3:], "channel binding": "y" + text[1:], "p=tls": "p=tls-unique" + text[1:],
            "no auth": "n,,\1host=x\1\1", "no pairs": "n,,\1\1", "auth twice": f"n,,\1auth=Bearer x\1auth=Bearer {token}\1\1",
            "scheme": text.replace("Bearer", "Basic"), "scheme in capitals": text.replace("Bearer", "BEARER"),
            "no scheme": text.replace("Bearer ", ""), "spaces": text.replace("Bearer ", "Bearer   "),
            "tab": text.replace("Bearer ", "Bearer\t"),
            "empty token": "n,,\1auth=Bearer \1\1", "strange token": "n,,\1auth=Bearer a!b\1\1",
            "Auth": text.replace("auth=", "Auth="),
            "authorization id": first(token, "alice").decode(), "another authorization id": first(token, "bob").decode(),
            "quoted authorization id": first(token, "al=2Cice").decode(),
            "bad authorization id": first(token, "al=ice").decode(),
            "empty authorization id": text.replace("n,,", "n,a=,"), "extensions": first(token, host="x", port="9092").decode(),
            "extension with spaces": first(token, a="b c\td\r\n").decode(), "empty extension": first(token, a="").decode(),
            "extension with a digit": first(token, a1="b").decode(),
            "extension of other letters": first(token, a="\xe9").decode(),
            "extension twice": text[:-1] + "a=b\1a=c\1\1", "long": first(token, a="x" * 100_000).decode(),
        }.items()
    }  # fmt: skip


def _options(now: float) -> Attempts:
    good = {"name": "alice", "exp": now + 600, "roles": ["write", "read", "more"]}
    for name, change in {
        "good": {}, "one scope": {"roles": ["read"]}, "no scope": {"roles": []}, "scope text": {"roles": "read write"},
        "scope one text": {"roles": "read"}, "scope null": {"roles": None}, "scope a number": {"roles": 3},
        "spaced": {"roles": [" read ", "write"]},
        "skew of exp": {"exp": now - 1}, "expired": {"exp": now - 20}, "skew of iat": {"iat": now + 2},
        "iat later": {"iat": now + 60},
        "sub alone": {"name": None}, "numbers": {"roles": ["read", "write", 5]},
    }.items():  # fmt: skip
        bad = first(unsecured(good | change))
        yield name, [bad, b"\1"] if "scope" in name else [bad]
    yield "no name", [first(unsecured({"sub": "alice", "exp": now + 600, "roles": ["read", "write"]}))]


def _sessions(now: float) -> Attempts:
    for name, seconds in {"longer": 600, "shorter": 35}.items():
        yield name, [first(unsecured({"sub": "alice", "exp": now + seconds}))]


def signed(claims: Any, key: str, algorithm: str, kid: str | None = "", **header: Any) -> str:
    """Returns a token that is signed with `key`. Its header names this key or, if `kid` is given, the key `kid`. If `kid` is
    None, the header names no key.
    """
    named = {} if kid is None else {"kid": kid or key}
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    return jwt.PyJWS().encode(payload, keys()[key], algorithm, headers=named | header)


def _signed(now: float) -> Attempts:
    good = {"sub": "alice", "exp": int(now) + 600, "iat": int(now) - 60}
    for key, algorithm in [
        ("rsa", "RS256"), ("rsa", "RS384"), ("other", "RS512"), ("other", "PS256"), ("ec", "ES256"), ("ed", "EdDSA"),
        ("shared", "HS256"), ("nameless", "ES256"),
    ]:  # fmt: skip
        yield f"{algorithm} {key}", [first(signed(good, key, algorithm))]
        yield f"{algorithm} {key}, no kid", [first(signed(good, key, algorithm, None))]
    for name, token in {
        "stranger": signed(good, "stranger", "ES256"), "stranger named ec": signed(good, "stranger", "ES256", "ec"),
        "encrypting": signed(good, "encrypting", "ES256"), "other named rsa": signed(good, "other", "RS256", "rsa"),
        "unsecured": unsecured(good), "unsecured with a signature": unsecured(good, signature="AAAA"),
        "type": signed(good, "ec", "ES256", typ="at+jwt"), "crit": signed(good, "ec", "ES256", crit=["x"], x=1),
        "HS256 with the public key's name": signed(good, "shared", "HS256", "rsa"),
        "kid a number": unsecured(good, {"alg": "ES256", "kid": 5}, "AAAA"),
        "kid a list": unsecured(good, {"alg": "ES256", "kid": ["ec"]}, "AAAA"),
        "kid kindless": signed(good, "ec", "ES256", "kindless"),
        "kid null": unsecured(good, {"alg": "ES256", "kid": None}, "AAAA"), "kid kinds": signed(good, "ec", "ES256", "kinds"),
        "kid hollow": signed(good, "rsa", "RS256", "hollow"), "kid uses": signed(good, "ec", "ES256", "uses"),
        "kid algs": signed(good, "ec", "ES256", "algs"), "kid 7": signed(good, "ec", "ES256", "7"),
        "alg a list": unsecured(good, {"alg": ["ES256"]}, "AAAA"), "alg a number": unsecured(good, {"alg": 5}, "AAAA"),
        "alg null": unsecured(good, {"alg": None}, "AAAA"), "alg absent": unsecured(good, {"kid": "ec"}, "AAAA"),
        "alg an object": unsecured(good, {"alg": {"a": 1}}, "AAAA"), "alg empty": unsecured(good, {"alg": ""}, "AAAA"),
        "alg of no kind": unsecured(good, {"alg": "XS256"}, "AAAA"), "alg ES999": unsecured(good, {"alg": "ES999"}, "AAAA"),
        "alg HS1": unsecured(good, {"alg": "HS1", "kid": "shared"}, "AAAA"),
        "alg ES512 of another curve": unsecured(good, {"alg": "ES512", "kid": "ec"}, "AAAA"),
        "header a list": unsecured(good, ["ES256"], "AAAA"), "header null": unsecured(good, "null", "AAAA"),
        "header a number": unsecured(good, "5", "AAAA"), "header not JSON": unsecured(good, "{", "AAAA"),
        "header not UTF-8": unsecured(good, b'{"alg":"\xff"}', "AAAA"), "b64 true": signed(good, "ec", "ES256", b64=True),
        "b64 a text": unsecured(good, {"alg": "ES256", "b64": "no", "crit": ["b64"]}, "AAAA"),
        "crit a number": unsecured(good, {"alg": "ES256", "crit": 5}, "AAAA"),
        "zip": unsecured(good, {"alg": "ES256", "kid": "ec", "zip": "DEF"}, "AAAA"),
        "header deep": unsecured(good, '{"alg":"ES256","x":' + "[" * 100_000 + "]" * 100_000 + "}", "AAAA"),
        "header of a huge number": unsecured(good, '{"alg":"ES256","x":' + "9" * 5000 + "}", "AAAA"),
        "two parts": "a.b", "garbage": "x.y.z", "empty signature": signed(good, "ec", "ES256").rpartition(".")[0] + ".",
        "cut": signed(good, "ec", "ES256")[:-5],
    }.items():  # fmt: skip
        yield name, [first(token), b"\1"] if name == "stranger" else [first(token)]
    changed: dict[str, Plain] = {
        "no exp": {"exp": None}, "expired": {"exp": now - 60}, "exp within the skew": {"exp": int(now) - 10},
        "exp text": {"exp": str(int(now) + 60)},
        "iat text": {"iat": "x"}, "iat later": {"iat": int(now) + 300}, "fractions": {"exp": now + 595.5, "iat": now - 0.5},
        "nbf later": {"nbf": int(now) + 300}, "nbf soon": {"nbf": int(now) + 10}, "nbf": {"nbf": int(now) - 10},
        "nbf text": {"nbf": "x"},
        "aud": {"aud": "kafka"}, "auds": {"aud": ["kafka"]}, "aud null": {"aud": None}, "aud a number": {"aud": 5},
        "aud empty": {"aud": []},
        "iss": {"iss": "x"}, "iss a number": {"iss": 5}, "sub empty": {"sub": ""}, "sub blank": {"sub": " "},
        "sub a number": {"sub": 5}, "sub null": {"sub": None},
        "sub spaced": {"sub": " alice "}, "scope": {"scope": "a b"}, "scope empty": {"scope": ""},
        "scope blank": {"scope": " "},
        "scopes": {"scope": ["a", "b"]}, "scope twice": {"scope": ["a", "a"]}, "scope with an empty one": {"scope": ["a", ""]},
        "scope a number": {"scope": 5}, "scope of numbers": {"scope": [5]}, "scope of nulls": {"scope": [None]},
        "scope null": {"scope": None}, "exp 1e12": {"exp": 10**12}, "exp negative": {"exp": -5},
        "exp 1e18": {"exp": 10**18}, "iat negative": {"iat": -5}, "jti a number": {"jti": 5}, "jti": {"jti": "x"},
    }  # fmt: skip
    for name, change in changed.items():
        yield f"claims: {name}", [first(signed(good | change, "ec", "ES256"))]
    for absent in good:
        yield f"claims: {absent} absent", [first(signed({k: v for k, v in good.items() if k != absent}, "ec", "ES256"))]
    for name, payload in {"a list": b"[]", "not JSON": b"{", "nothing": b"", "not UTF-8": b'{"sub":"\xff"}'}.items():
        yield f"payload: {name}", [first(signed(payload, "ec", "ES256"))]
    yield "authorization id", [first(signed(good, "ec", "ES256"), "bob")]
    bad = first(signed(good | {"exp": int(now) - 600}, "ec", "ES256"))
    yield "a good token after a bad one", [bad, first(signed(good, "ec", "ES256"))]


def _expected(now: float) -> Attempts:
    good = {"user": "alice", "exp": int(now) + 600, "iat": int(now) - 60, "aud": "kafka", "iss": "https://issuer.example"}
    changed: dict[str, Plain] = {
        "good": {}, "another aud": {"aud": "web"}, "auds": {"aud": ["web", "streams"]}, "no aud": {"aud": None},
        "aud empty": {"aud": []},
        "another iss": {"iss": "https://other.example"}, "no iss": {"iss": None},
        "iss a list": {"iss": ["https://issuer.example"]},
        "exp within the skew": {"exp": int(now) - 2}, "expired": {"exp": int(now) - 10}, "sub": {"sub": "bob"},
        "user null": {"user": None},
        "roles": {"roles": ["a", "a"]}, "scope": {"scope": ["a", "a"]}, "nbf soon": {"nbf": int(now) + 2},
        "nbf later": {"nbf": int(now) + 20},
    }  # fmt: skip
    for name, change in changed.items():
        yield name, [first(signed({k: v for k, v in (good | change).items() if v is not None}, "rsa", "RS256"))]


# Playing


def play(broker: str, address: tuple[str, int], now: int) -> Iterator[list[Any]]:
    """Sends all attempts to a broker whose time is `now` (ms). Yields the name and the responses of each dialogue."""
    for name, messages in attempts(broker, now / 1000):
        with closing(Connection(address, 10)) as connection:
            connection.request(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
            yield [f"{broker}: {name}", [_response(connection, each) for each in messages]]


def _response(connection: Connection, message: bytes) -> Any:
    try:
        response = connection.request(SaslAuthenticateRequest(auth_bytes=message), 2)
    except ConnectionClosed:
        return "closed"
    lifetime = -(-response.session_lifetime_ms // 10_000) * 10
    return [response.error_code, response.error_message, bytes(response.auth_bytes).decode(), lifetime]
