"""Clients that are refused or held back: by TLS, logins, ACLs, versions and quotas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from wirebroker.explain.detector import Detector, Known
from wirebroker.explain.findings import Evidence, Finding
from wirebroker.explain.words import Client, between, capital, client_of, equal, ms, shell, times
from wirebroker.trace.rows import AuthenticationRow, AuthorizationRow, ConnectionRow, ReplyRow, Row, ThrottleRow, UnsupportedRow

TLS = "SSL"
"""The mechanism of rows about a TLS handshake."""
ADVICE_ON_TLS = (
    ("not to speak TLS", "the broker's port is plaintext, and the proxy speaks TLS",
     "--upstream-tls-ca of the proxy, and the port"),
    ("proxy's certificate", "the broker wants a certificate that it trusts, and the proxy has none or another",
     "--upstream-tls-cert of the proxy, and ssl.truststore of the broker"),
    ("wants a certificate", "the broker wants a certificate from its clients, and the proxy has none",
     "--upstream-tls-cert of the proxy"),
    ("has no certificate", "the listener wants a certificate from each client", "ssl.keystore.location of the client, or "
     "ssl.client.auth of the listener"),
    ("certificate is refused", "the authority of the client's certificate is not in the truststore of the listener, or the "
     "certificate has expired", "ssl.truststore of the broker (--tls-client-ca), and ssl.keystore.location of the client"),
    ("trust", "the authority that signed the certificate is not in the truststore of the other side",
     "ssl.truststore.location (ssl.ca.location in librdkafka) of the client; --upstream-tls-ca of a proxy"),
    ("broker's certificate", "the certificate has expired, is not for this host name, or is signed by another authority",
     "ssl.truststore.location of the client, and the names and dates in the broker's certificate"),
    ("listener is plaintext", "the client speaks TLS to a plaintext port", "security.protocol of the client, and the port"),
    ("speaks HTTP", "a browser or a health check speaks HTTP to a port of Kafka", "the address of the health check"),
    ("plaintext", "the client speaks plaintext to a port with TLS", "security.protocol of the client: SSL or SASL_SSL"),
    ("--upstream-tls-ca", "the broker's port speaks TLS, and the proxy speaks plaintext", "--upstream-tls-ca of the proxy"),
)  # fmt: skip
"""For each part of a reason: the usual cause, and where to look."""
ABOUT_TLS = (
    "speaks TLS",
    "does it want TLS",
    "certificate is not trusted",
    "TLS handshake",
    "the proxy's certificate",
    "wants a certificate",
)
"""Parts of reasons: a connection with such a reason was closed because of TLS."""


def is_about_tls(row: Row) -> bool:
    """Tells whether a connection was closed because of TLS: between proxy and broker, or because a client speaks TLS."""
    reason = row.reason if isinstance(row, ConnectionRow) else ""
    return any(part in reason for part in ABOUT_TLS)


class TlsFailures(Detector):
    """Finds `tls_failed`: failed TLS handshakes, by reason."""

    events = ("authentication", "connection")

    def __init__(self) -> None:
        self._found: Known[tuple[str, str], Evidence] = Known(Evidence)

    def take(self, number: int, row: Row) -> None:
        """Take a row."""
        if isinstance(row, AuthenticationRow) and row.mechanism == TLS and row.outcome == "failed":
            self._found[row.client_host, row.reason].add(number, row)
        elif is_about_tls(row) and isinstance(row, ConnectionRow):
            self._found["", row.reason].add(number, row)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each host and reason of failed handshakes."""
        for (host, reason), evidence in self._found.items():
            who = f"a client at {host}" if host else "a client"
            sentence = f"The TLS handshake of {who} failed {times(evidence.count)} {_when(evidence)}: {reason}."
            if isinstance(evidence.rows[0].row, ConnectionRow):
                sentence = f"A connection was closed because of TLS {times(evidence.count)} {_when(evidence)}: {reason}."
            cause, look_at = next(
                ((cause, look_at) for part, cause, look_at in ADVICE_ON_TLS if part in reason),
                ("client and broker have no version of TLS or no cipher in common, or the client does not accept the broker's "
                 "certificate", "ssl.enabled.protocols, ssl.cipher.suites and ssl.truststore.location of the client"),
            )  # fmt: skip
            event = evidence.rows[0].row.event
            yield Finding("tls_failed", sentence, cause, look_at, equal("event", event), evidence, evidence.count)


class LoginFailures(Detector):
    """Finds `login_failed`: logins that brokers refuse, and sessions that end because clients do not log in again."""

    events = ("authentication",)

    def __init__(self) -> None:
        self._found: Known[tuple[str, str, str, str], Evidence] = Known(Evidence)

    def take(self, number: int, row: Row) -> None:
        """Take a row."""
        if isinstance(row, AuthenticationRow) and row.outcome != "succeeded" and row.mechanism != TLS:
            self._found[row.user or row.principal, row.client_host, row.mechanism, row.reason].add(number, row)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each user, host, mechanism and reason of failed logins."""
        for (_, host, mechanism, reason), evidence in self._found.items():
            row = evidence.rows[0].row
            name = f"of {row.user!r}" if isinstance(row, AuthenticationRow) and row.user else "of a client"
            by, where_from = f" by {mechanism}" if mechanism else "", f" from {host}" if host else ""
            sentence = (
                f"The login {name}{by}{where_from} failed {times(evidence.count)} {_when(evidence)}: {reason or 'no reason'}."
            )
            yield Finding(
                "login_failed", sentence, *_advice_on_login(reason, mechanism), f"event=authentication {equal('host', host)}",
                evidence, evidence.count,
            )  # fmt: skip


def _advice_on_login(reason: str, mechanism: str) -> tuple[str, str]:
    if "UNSUPPORTED_SASL_MECHANISM" in reason or ("SASL mechanism" in reason and "enabled" in reason):
        return f"the listener does not have the mechanism {mechanism}", "sasl.mechanism of the client; sasl.enabled.mechanisms"
    if "did not authenticate again" in reason or "re-authentic" in reason:
        return "the session has ended, and the client does not renew it", "connections.max.reauth.ms, and the client's version"
    if mechanism == "OAUTHBEARER":
        return "the token has expired, or its issuer, audience or key is not what the broker expects", (
            "sasl.oauthbearer.expected.audience and …issuer of the broker, and the clocks of both"
        )
    return "the password is wrong, or the broker does not know the user for this mechanism", (
        "sasl.jaas.config of the client; kafka-configs.sh --describe --entity-type users shows SCRAM credentials"
    )


class Denials(Detector):
    """Finds `denied`: operations that ACLs do not allow."""

    events = ("authorization",)

    def __init__(self) -> None:
        self._found: Known[tuple[str, str, str, str], Evidence] = Known(Evidence)

    def take(self, number: int, row: Row) -> None:
        """Take a row."""
        if isinstance(row, AuthorizationRow):
            self._found[row.principal, row.operation, row.resource_type, row.resource].add(number, row)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each denied principal, operation and resource."""
        for (principal, operation, kind, name), evidence in self._found.items():
            row = evidence.rows[0].row
            why = row.reason if isinstance(row, AuthorizationRow) else ""
            sentence = f"{principal} was denied {operation} on {kind} {name} {times(evidence.count)} {_when(evidence)} ({why})."
            option = {"TOPIC": "--topic", "GROUP": "--group", "TRANSACTIONAL_ID": "--transactional-id"}.get(kind)
            resource = f"{option} {shell(name)}" if option else "--cluster"
            yield Finding(
                "denied", sentence, "no ACL allows it, or an ACL denies it",
                f"kafka-acls.sh --list {resource}; to allow it: kafka-acls.sh --add --allow-principal {shell(principal)} "
                f"--operation {operation} {resource}",
                f"event=authorization {equal('principal', principal)}", evidence, evidence.count,
            )  # fmt: skip


class UnsupportedVersions(Detector):
    """Finds `unsupported_version`: requests in versions that a broker does not read."""

    events = ("unsupported", "reply")

    def __init__(self) -> None:
        self._found: Known[tuple[Client, str, str, int], Evidence] = Known(Evidence)

    def take(self, number: int, row: Row) -> None:
        """Take a row. A client first sends ApiVersions in its newest version; an error in that response is normal."""
        if isinstance(row, UnsupportedRow) or (
            isinstance(row, ReplyRow) and row.api != "ApiVersions" and "UNSUPPORTED_VERSION" in row.errors
        ):
            self._found[client_of(row), row.software, row.api, row.version].add(number, row)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each refused version of an API, by client."""
        for (client, software, api, version), evidence in self._found.items():
            row = evidence.rows[0].row
            read = f"; versions {row.oldest} to {row.newest} are read" if isinstance(row, UnsupportedRow) else ""
            dropped = isinstance(row, UnsupportedRow) and version < row.oldest
            cause = "Kafka 4.0 dropped the versions of clients older than 2.1 (KIP-896)" if dropped else (
                "the client is newer than the broker, or uses a feature that this cluster has not turned on"
            )  # fmt: skip
            with_software = f" ({software})" if software else ""
            count = f"{times(evidence.count)} {_when(evidence)}"
            sentence = f"{capital(str(client))}{with_software} sent {api} version {version} {count}{read}."
            yield Finding(
                "unsupported_version", sentence, cause, "the version of the client's library",
                f"event=unsupported api={api}" if read else f"api={api} error=UNSUPPORTED_VERSION",
                evidence, evidence.count,
            )  # fmt: skip


QUOTAS = {"Produce": "producer_byte_rate", "Fetch": "consumer_byte_rate"}
"""The quota that usually holds back the requests of an API."""
MUTATIONS = ("CreateTopics", "DeleteTopics", "CreatePartitions")


@dataclass
class _Waits:
    evidence: Evidence = field(default_factory=Evidence)
    total: int = 0
    longest: int = 0
    apis: set[str] = field(default_factory=set)


class Throttling(Detector):
    """Finds `throttled`: clients that quotas hold back."""

    events = ("throttle",)

    def __init__(self) -> None:
        self._found: Known[tuple[Client, str, str, float], _Waits] = Known(_Waits)

    def take(self, number: int, row: Row) -> None:
        """Take a row."""
        if isinstance(row, ThrottleRow):
            found = self._found[client_of(row), row.quota, row.whose, row.limit]
            found.evidence.add(number, row)
            found.total += row.ms
            found.longest = max(found.longest, row.ms)
            found.apis.add(row.api)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each throttled client and quota."""
        for (client, quota, whose, limit), found in self._found.items():
            apis = ", ".join(sorted(found.apis - {""})) or "its connections"
            by = f"the quota {quota} of {whose}, {limit:g}" if quota else f"a quota, probably {_likely(found.apis)}"
            sentence = (
                f"{capital(str(client))} was throttled {times(found.evidence.count)} {_when(found.evidence)} by {by}: it was "
                f"told to wait {ms(found.total)} in all, at most {ms(found.longest)}, for {apis}."
            )
            user = client.principal.partition(":")[2]
            named = user not in ("ANONYMOUS", "", "?")
            entity = f"--entity-type users --entity-name {shell(user)}" if named else "--entity-type clients"
            yield Finding(
                "throttled", sentence,
                "the client sends or reads more than its quota allows; latency grows, and no request fails",
                f"kafka-configs.sh --describe {entity}; the quotas of the client id and the defaults count, too",
                f"event=throttle {client.chosen}", found.evidence, found.total,
            )  # fmt: skip


def _likely(apis: set[str]) -> str:
    names = {QUOTAS.get(api, "controller_mutation_rate" if api in MUTATIONS else "request_percentage") for api in apis}
    return " or ".join(sorted(names | ({"request_percentage"} if names & set(QUOTAS.values()) else set())))


def _when(evidence: Evidence) -> str:
    return between(evidence.first_time, evidence.last_time)
