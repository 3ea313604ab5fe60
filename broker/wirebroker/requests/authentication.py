"""Authenticates the clients of a cluster: the SASL dialogues, the interceptor that runs them, and the sessions' expiry.

The rules come from SaslServerAuthenticator and KafkaChannel: before a client is authenticated it may send ApiVersions once,
SaslHandshake, and its tokens. SaslHandshake and SaslAuthenticate have handlers like all other APIs, so faults and the trace
also apply to them. After authentication a connection keeps its interceptor only if its session will expire (KIP-368).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kafkawire.errors import ErrorCode
from kafkawire.frames import KEY_VERSION_CORRELATION
from kafkawire.registry import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, api_name
from wirebroker.client.jaas import users_of
from wirebroker.core.delegation_tokens import password_of
from wirebroker.core.java_order import set_of_names
from wirebroker.core.releases.changes import since
from wirebroker.requests.connection import (
    Connection,
    Decision,
    Disconnect,
    Ignore,
    Interceptor,
    Refuse,
    Send,
    Unauthenticated,
)
from wirebroker.security.identities import user_of
from wirebroker.security.mechanisms import BY_PASSWORD, GSSAPI, OAUTHBEARER, PLAIN, Challenge, Failure, Mechanism, Success
from wirebroker.security.oauthbearer import OAuthBearer
from wirebroker.security.plain import Plain
from wirebroker.security.principals import USER, Principal, PrincipalRules
from wirebroker.security.scram import BY_NAME, LEAST_ITERATIONS, Scram, ScramMechanism, TokenOwner, credential_of
from wirebroker.security.session import Stage
from wirebroker.security.web_tokens import LATEST, Check, KeySet, SignedTokens, UnsecuredTokens

if TYPE_CHECKING:
    from wirebroker.core.cluster import Cluster

ENDS_SESSIONS = since("3.3", "a session ends when its credential expires, even if connections.max.reauth.ms is 0")
CLOSES_ENDED_SESSIONS = since(
    "2.4", "a request after the end of the client's session closes the connection, and does not remain without a response"
)
ENDS_BARE_SESSIONS = since("2.5", "connections.max.reauth.ms also ends sessions that began with SaslHandshake version 0")
CHECKS_NONCES = since("3.7", "the client's last message in a SCRAM handshake must repeat the nonces", "CVE-2024-56128")
AUTHENTICATES_AGAIN = since("2.2", "clients can authenticate again, and sessions can expire", "KIP-368")
TELLS_VERSIONS_ONCE = since("1.0", "a second ApiVersions before a login closes the connection")
LOGS_IN_BY_TOKEN = since("1.1", "clients can log in with delegation tokens", "KIP-48")
STRICT_PLAIN = since("2.2", "a login with PLAIN that ends with a NUL is refused")

FIRST_REQUESTS = {Stage.HANDSHAKE_OR_VERSIONS: (SASL_HANDSHAKE, API_VERSIONS), Stage.HANDSHAKE: (SASL_HANDSHAKE,)}
AGAIN_AFTER_MS = 1000
"""On an authenticated connection, a SaslHandshake is an error if it arrives less than this many ms after the previous
SaslHandshake (KIP-368).
"""
SALT_BYTES = NONCE_BYTES = 20

Note = Callable[[Connection, Literal["succeeded", "failed", "expired"], str], None]
"""The type of a function that is called after each authentication, with the connection, the outcome, and the cause of a
failure.
"""
LONGEST_CAUSE = 300
"""The log shows at most this many characters of a cause, because a cause may contain a user name, and a client may send a name
of half a megabyte.
"""


_credential = lru_cache(maxsize=4096)(credential_of)


class KeySource(Protocol):
    """A source of the keys that verify signed tokens."""

    def of(self, url: str) -> KeySet:
        """Returns the keys at a URL."""

    def missing(self, url: str, key_id: str) -> None:
        """Fetch the keys at a URL again soon, because the key `key_id` is not among the known keys."""


class Authenticator:
    """Authenticates the clients of a cluster."""

    def __init__(self, cluster: Cluster, note: Note) -> None:
        self._cluster = cluster
        self._note = note
        self.passwords: dict[str, str] = {}
        """The passwords by user name, for SASL/PLAIN."""
        self.key_sets: KeySource
        """The source of the keys at the URLs in `sasl.oauthbearer.jwks.endpoint.url`. This attribute is set before the first
        listener with such a URL opens.
        """

    # Users

    def add_user(self, name: str, password: str, iterations: Mapping[str, int] | None = None) -> None:
        """Let a user log in with this password, through every mechanism that uses passwords.

        With `iterations`, the user gets SCRAM credentials only for the mechanisms in `iterations`, and the salt is derived from
        the user's name. Making a credential takes milliseconds. With a derived salt the same credential can be reused, so a
        broker that imitates a learned cluster starts fast.
        """
        self.passwords[name] = password
        for mechanism in BY_NAME.values():
            if iterations is not None and mechanism.name not in iterations:
                continue
            held = self._cluster.scram.get((name, mechanism.number))
            if held is not None:
                salt, count = held.salt, held.iterations
            elif iterations is None:
                salt, count = self._cluster.random_bytes(SALT_BYTES), LEAST_ITERATIONS
            else:
                salt, count = sha256(name.encode()).digest()[:SALT_BYTES], iterations[mechanism.name]
            made = _credential(mechanism, password, salt, count)
            if held != made:
                self._cluster.alter_scram({(name, mechanism.number): made})

    def mechanisms(self, listener: str) -> list[str]:
        """Returns the enabled mechanisms of a listener, in Kafka's order."""
        names = self.mechanisms_in_setting(listener)
        return set_of_names(BY_PASSWORD if names == [GSSAPI] else names)

    def mechanisms_in_setting(self, listener: str) -> list[str]:
        """Returns the mechanisms in the listener's setting, in the order of the setting."""
        names = self._cluster.configs.at(listener, "sasl.enabled.mechanisms")
        return names if isinstance(names, list) else []

    def _new(self, name: str, listener: str) -> Mechanism:
        if name == PLAIN:
            login = self._cluster.configs.at(listener, "sasl.jaas.config", PLAIN)
            strict = STRICT_PLAIN.of(self._cluster.configs.release)
            return Plain(self.passwords | users_of(str(login)) if login else self.passwords, strict=strict)
        if name == OAUTHBEARER:
            return OAuthBearer(self._check_of_tokens(listener))
        mechanism, scram = BY_NAME[name], self._cluster.scram
        release = self._cluster.configs.release
        nonce = self._cluster.random_bytes(NONCE_BYTES).hex()
        return Scram(
            mechanism, nonce, lambda user: scram.get((user, mechanism.number)),
            (lambda name: self._token(mechanism, name)) if LOGS_IN_BY_TOKEN.of(release) else None,
            checks_nonce=CHECKS_NONCES.of(release),
        )  # fmt: skip

    def _token(self, mechanism: ScramMechanism, token_id: str) -> TokenOwner | None:
        """Returns the owner of a delegation token. An expired token still has an owner, until the token is removed."""
        key, token = self._cluster.configs.text("delegation.token.secret.key"), self._cluster.tokens.by_id.get(token_id)
        if not key or token is None:
            return None
        credential = credential_of(mechanism, password_of(token_id, key), self._cluster.random_bytes(SALT_BYTES))
        return TokenOwner(token.owner.partition(":")[2], credential, token.expires_at)

    def _check_of_tokens(self, listener: str) -> Check:
        def value(name: str) -> Any:
            return self._cluster.configs.at(listener, name, OAUTHBEARER)

        url = value("sasl.oauthbearer.jwks.endpoint.url")
        if not url:
            return UnsecuredTokens.configured(value("sasl.jaas.config") or "").check
        return SignedTokens(
            lambda: self.key_sets.of(url),
            lambda key_id: self.key_sets.missing(url, key_id),
            value("sasl.oauthbearer.expected.audience"),
            value("sasl.oauthbearer.expected.issuer") or "",
            value("sasl.oauthbearer.clock.skew.seconds"),
            value("sasl.oauthbearer.sub.claim.name"),
            value("sasl.oauthbearer.scope.claim.name"),
        ).check

    # Connections

    def interceptor(self, connection: Connection) -> Interceptor | None:
        """Returns the interceptor for a connection to a SASL listener, or None if the listener does not use SASL."""
        configs = self._cluster.configs
        sasl = connection.session.protocol.sasl
        connection.frame_limit = configs.integer("sasl.server.max.receive.size" if sasl else "socket.request.max.bytes")
        return self if sasl else None

    def decide(self, connection: Connection, frame: memoryview, now: int) -> Decision | None:
        """Decides what happens to a request or token in the present state of the client's session."""
        session = connection.session
        if session.stage is Stage.TOKEN and session.bare:
            outcome = self.evaluate(connection, bytes(frame), now)
            return Unauthenticated(outcome.cause) if isinstance(outcome, Failure) else Send(outcome.token)
        key, _, _ = KEY_VERSION_CORRELATION.unpack_from(frame)
        if session.stage is Stage.DONE:
            return self._decide_again(connection, key, now)
        if session.stage is Stage.OTHER_MECHANISM:
            return Unauthenticated(self._failed(connection, f"it must authenticate again by {session.mechanism}").cause)
        if session.stage is Stage.TOKEN:
            if key == SASL_AUTHENTICATE:
                return None
            cause = f"it sent {api_name(key)} instead of {session.stage.value}"
            return Refuse(ErrorCode.ILLEGAL_SASL_STATE, self._failed(connection, cause).cause)
        if key in FIRST_REQUESTS[session.stage]:
            return None
        return Disconnect(f"the client sent {api_name(key)} before it authenticated; expected {session.stage.value}")

    def _decide_again(self, connection: Connection, key: int, now: int) -> Decision | None:
        """Decides what happens to a request on an authenticated connection whose session can expire."""
        session = connection.session
        if not AUTHENTICATES_AGAIN.of(self._cluster.configs.release):
            return None
        began = session.begun_again_at
        if key == SASL_HANDSHAKE and (began is None or now - began >= AGAIN_AFTER_MS):
            session.begun_again_at = now
            session.stage = Stage.HANDSHAKE
            connection.produce_shape = None
            self.interceptor(connection)
        elif session.ended or (session.expires_at is not None and now > session.expires_at):
            cause = f"the session of {session.principal} ended, and the client did not authenticate again"
            self._note(connection, "expired", cause)
            if CLOSES_ENDED_SESSIONS.of(self._cluster.configs.release):
                return Disconnect(cause)
            connection.interceptor = Ignoring()
            return Ignore()
        return None

    def by_certificate(self, connection: Connection, subject: str) -> None:
        """Authenticate a client by the subject name in its certificate."""
        session = connection.session
        rules = str(self._cluster.configs.at(session.listener, "ssl.principal.mapping.rules"))
        session.asked = session.mechanism = "SSL"
        name = PrincipalRules(rules).name(subject)
        if name is None:
            cause = f"no rule of ssl.principal.mapping.rules matches the name in its certificate, {subject}"
            connection.interceptor = Closing(self._failed(connection, cause).cause)
        else:
            session.principal = Principal(USER, name)
            self._note(connection, "succeeded", "")

    # The dialogue

    def versions_told(self, connection: Connection) -> None:
        """Register that the broker has answered ApiVersions. From Kafka 1.0 on, an unauthenticated client may send ApiVersions
        only once.
        """
        once = TELLS_VERSIONS_ONCE.of(self._cluster.configs.release)
        if once and connection.session.stage is Stage.HANDSHAKE_OR_VERSIONS:
            connection.session.stage = Stage.HANDSHAKE

    def handshake(self, connection: Connection, name: str, *, bare: bool) -> Failure | None:
        """Begin to authenticate with the mechanism `name`. With `bare` the client's tokens have no request headers."""
        session = connection.session
        enabled = self.mechanisms(session.listener)
        if name not in enabled:
            return self._failed(connection, f"it asked for the SASL mechanism {name!r}; enabled: {', '.join(enabled)}")
        if session.mechanism not in ("", name):
            session.stage = Stage.OTHER_MECHANISM
            return None
        session.sasl, session.asked = self._new(name, session.listener), name
        session.bare, session.stage = bare, Stage.TOKEN
        return None

    def evaluate(self, connection: Connection, token: bytes, now: int) -> Challenge | Success | Failure:
        """Evaluate a client's token. After a Success, the session has the principal of the user that the Success names. After a
        Failure the caller must close the connection.
        """
        session = connection.session
        assert session.sasl is not None
        session.user = user_of(session.asked, token) or session.user
        outcome = session.sasl.evaluate(token, now)
        if isinstance(outcome, Challenge):
            return outcome
        if isinstance(outcome, Failure):
            doing = "re-authentication" if session.mechanism else "authentication"
            hidden = f"Authentication failed during {doing} due to invalid credentials with SASL mechanism {session.asked}"
            message = outcome.message or hidden
            return self._failed(connection, outcome.cause, message)._replace(responds=outcome.responds)
        principal = Principal(USER, outcome.user)
        if session.mechanism and principal != session.principal:
            before, after = (f"{who.kind}.{who.name}" for who in (session.principal, principal))
            message = f"Cannot change principals during re-authentication from {before}: {after}"
            return self._failed(connection, message, message)
        if outcome.expires_at is not None and outcome.expires_at - now >= LATEST:
            return self._failed(connection, "its token expires later than Kafka can represent")._replace(responds=False)
        self._succeeded(connection, principal, outcome, now)
        return outcome

    def _succeeded(self, connection: Connection, principal: Principal, outcome: Success, now: int) -> None:
        session = connection.session
        session.again = bool(session.mechanism)
        session.principal, session.by_token, session.mechanism = principal, outcome.by_token, session.asked
        session.sasl, session.stage, session.ended = None, Stage.DONE, False
        most = int(str(self._cluster.configs.at(session.listener, "connections.max.reauth.ms", session.mechanism)))
        if most <= 0 and not ENDS_SESSIONS.of(self._cluster.configs.release):
            outcome = outcome._replace(expires_at=None)
        if session.bare and not ENDS_BARE_SESSIONS.of(self._cluster.configs.release):
            outcome, most = outcome._replace(expires_at=None), 0
        ends = [*([now + most] if most > 0 else []), *([] if outcome.expires_at is None else [outcome.expires_at])]
        session.expires_at = max(min(ends), now) if ends else None
        connection.frame_limit = self._cluster.configs.integer("socket.request.max.bytes")
        if session.expires_at is None:
            connection.interceptor = None
        self._note(connection, "succeeded", "")

    def expire(self, connection: Connection) -> None:
        """End the session of an authenticated client. The client's next request must begin a re-authentication."""
        connection.session.ended = True
        connection.interceptor = self
        connection.produce_shape = None

    def renew(self, connection: Connection) -> None:
        """If a fault has ended the session, let the session continue until its deadline."""
        if connection.session.ended:
            connection.session.ended = False
            connection.interceptor = self

    def _failed(self, connection: Connection, cause: str, message: str | None = None) -> Failure:
        if len(cause) > LONGEST_CAUSE:
            cause = f"{cause[:LONGEST_CAUSE]}…"
        self._note(connection, "failed", cause)
        return Failure(f"authentication failed: {cause}", message)


class Ignoring:
    """An interceptor that ignores all requests."""

    def decide(self, connection: Connection, frame: memoryview, now: int) -> Decision | None:
        return Ignore()


class Closing:
    """An interceptor that closes the connection at its first request."""

    def __init__(self, cause: str) -> None:
        self._cause = cause

    def decide(self, connection: Connection, frame: memoryview, now: int) -> Decision | None:
        return Disconnect(self._cause)
