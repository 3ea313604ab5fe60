"""Finds clients that are refused because of TLS, logins, ACLs or API versions, and clients that are throttled by quotas."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from msgspec import Struct, field

from wirebroker.audit.findings import plural
from wirebroker.trace.rows import (
    AuthenticationRow,
    AuthorizationRow,
    ConnectionRow,
    FaultRow,
    ProduceRow,
    ReplyRow,
    Row,
    ThrottleRow,
    UnsupportedRow,
)
from wirebroker.trace.selection import ExchangeKey, exchange_of
from wirebroker_tools.explain.detector import Detector, Known
from wirebroker_tools.explain.findings import Evidence, Finding, Shot
from wirebroker_tools.explain.words import (
    SECOND,
    Client,
    at,
    between,
    capital,
    client_of,
    equal,
    ms,
    rhythm,
    times,
    tool,
)

TLS = "SSL"
"""Rows about TLS handshakes have this `mechanism`."""
ADVICE_ON_TLS = (
    ("not to speak TLS", "the broker's port is plaintext, and the proxy speaks TLS",
     "--upstream-tls-ca of the proxy, and the port"),
    ("proxy's certificate", "the proxy has no certificate, or a certificate that the broker does not trust",
     "--upstream-tls-cert of the proxy, and ssl.truststore of the broker"),
    ("wants a certificate", "the broker wants a certificate from its clients, and the proxy has no certificate",
     "--upstream-tls-cert of the proxy"),
    ("ssl.principal.mapping.rules", "the broker finds no user name in the client's certificate",
     "ssl.principal.mapping.rules of the broker, and the subject of the client's certificate"),
    ("has no certificate", "the listener wants a certificate from each client", "ssl.keystore.location of the client, or "
     "ssl.client.auth of the listener"),
    ("certificate is refused", "the authority of the client's certificate is not in the truststore of the listener, or the "
     "certificate has expired", "ssl.truststore of the broker (--tls-client-ca), and ssl.keystore.location of the client"),
    ("does not trust", "the authority that signed the broker's certificate is not in the truststore of the client",
     "ssl.truststore.location (ssl.ca.location in librdkafka) of the client"),
    ("trust", "the authority that signed the certificate is not in the truststore of the other side",
     "ssl.truststore.location (ssl.ca.location in librdkafka) of the client; --upstream-tls-ca of a proxy"),
    ("broker's certificate", "the certificate has expired, is not for this host name, or is signed by another authority",
     "ssl.truststore.location of the client, and the names and dates in the broker's certificate"),
    ("listener is plaintext", "the client speaks TLS to a plaintext port", "security.protocol of the client, and the port"),
    ("speaks HTTP", "a browser or a health check speaks HTTP to a Kafka port", "the address of the health check"),
    ("plaintext", "the client speaks plaintext to a port with TLS", "security.protocol of the client: SSL or SASL_SSL"),
    ("--upstream-tls-ca", "the broker's port speaks TLS, and the proxy speaks plaintext", "--upstream-tls-ca of the proxy"),
)  # fmt: skip
"""Texts that may occur in the reason of a failed handshake, each with the usual cause and the setting to look at."""
ABOUT_TLS = (
    "speaks TLS",
    "does it want TLS",
    "certificate is not trusted",
    "TLS handshake",
    "the proxy's certificate",
    "wants a certificate",
)
"""If one of these texts occurs in the reason why a connection was closed, the connection was closed because of TLS."""


def is_about_tls(row: Row) -> bool:
    """Tells whether the row is about a connection that was closed because of TLS: TLS failed between the proxy and the broker,
    or a client used TLS on a plaintext port."""
    reason = row.reason if isinstance(row, ConnectionRow) else ""
    return any(part in reason for part in ABOUT_TLS)


class TlsFailures(Detector):
    """Finds `tls_failed`: TLS handshakes that failed, grouped by client host and reason."""

    events = ("authentication", "connection")

    def __init__(self) -> None:
        self._found: Known[tuple[str, str, str], Evidence] = Known(Evidence)
        self._passed: Known[str, Evidence] = Known(Evidence)
        """For each listener, the logins that succeeded."""

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, AuthenticationRow):
            if row.mechanism == TLS and row.outcome == "failed":
                self._found[row.client_host, row.listener, row.reason].add(number, row)
            elif row.outcome == "succeeded":
                self._passed[row.listener].add(number, row)
        elif is_about_tls(row) and isinstance(row, ConnectionRow):
            self._found["", "", row.reason].add(number, row)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields one finding for all failed handshakes with the same host, listener and reason."""
        for (host, listener, reason), evidence in self._found.items():
            who = f"a client at {host}" if host else "a client"
            sentence = (
                f"The TLS handshake of {who} failed {times(evidence.count)} {_when(evidence)}{rhythm(evidence)}: {reason}."
                f"{self._others(listener, evidence)}"
            )
            if isinstance(evidence.rows[0].row, ConnectionRow):
                sentence = f"A connection was closed because of TLS {times(evidence.count)} {_when(evidence)}: {reason}."
            cause, look_at = next(
                ((cause, look_at) for part, cause, look_at in ADVICE_ON_TLS if part in reason),
                ("client and broker have no version of TLS or no cipher in common, or the client does not accept the broker's "
                 "certificate", "ssl.enabled.protocols, ssl.cipher.suites and ssl.truststore.location of the client"),
            )  # fmt: skip
            if host:
                look_at += f". A handshake does not name its client: look for a program on {host} that connects at these times"
            where = "event=authentication outcome=failed mechanism=SSL" if host else f"change=closed {equal('reason', reason)}"
            yield Finding("tls_failed", sentence, cause, look_at, where, evidence, evidence.count, Shot("sequence", "", where))

    def _others(self, listener: str, failed: Evidence) -> str:
        """If clients have logged in at the listener, returns a remark that they accept its certificate. Otherwise returns
        ""."""
        passed = self._passed.get(listener)
        if passed is None:
            return ""
        before = f", all before the first failure ({at(passed.last_time)} or earlier)" * (passed.last_time < failed.first_time)
        return (
            f" {plural(passed.count, 'login')} succeeded at the same listener{before}, so other clients accept the broker's "
            "certificate: look at this client first."
        )


class LoginFailures(Detector):
    """Finds `login_failed`: logins that brokers refuse, and sessions that end because clients do not log in again."""

    events = ("authentication",)

    def __init__(self) -> None:
        self._found: Known[tuple[str, str, str, str], Evidence] = Known(Evidence)

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, AuthenticationRow) and row.outcome != "succeeded" and row.mechanism != TLS:
            self._found[row.user or row.principal, row.client_host, row.mechanism, row.reason].add(number, row)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields one finding for all failed logins with the same user, host, mechanism and reason."""
        for (_, host, mechanism, reason), evidence in self._found.items():
            row = evidence.rows[0].row
            name = f"of {row.user!r}" if isinstance(row, AuthenticationRow) and row.user else "of a client"
            by, where_from = f" by {mechanism}" if mechanism else "", f" from {host}" if host else ""
            sentence = (
                f"The login {name}{by}{where_from} failed {times(evidence.count)} {_when(evidence)}: {reason or 'no reason'}."
            )
            where = f"event=authentication outcome!=succeeded {equal('host', host)}"
            yield Finding(
                "login_failed", sentence, *_advice_on_login(reason, mechanism), where, evidence, evidence.count,
                Shot("sequence", "", where),
            )  # fmt: skip


_PRINCIPALS = "Cannot change principals"
ADVICE_ON_LOGINS: tuple[tuple[str, str, str], ...] = (
    ("UNSUPPORTED_SASL_MECHANISM", "the listener does not have the mechanism {mechanism}",
     "sasl.mechanism of the client; sasl.enabled.mechanisms"),
    ("asked for the SASL mechanism", "the listener does not have the mechanism {mechanism}",
     "sasl.mechanism of the client; sasl.enabled.mechanisms"),
    (_PRINCIPALS, "the client logs in again on an open connection (re-authentication), but as another user: its login callback "
     "or sasl.jaas.config has other credentials now", "sasl.jaas.config and the login callback of the client; a "
     "client that changes its user needs a new connection"),
    ("must authenticate again by", "the client logs in again on an open connection, but with another mechanism",
     "sasl.mechanism of the client; a client that changes its mechanism needs a new connection"),
    ("did not authenticate again", "the session has ended, and the client does not renew it",
     "connections.max.reauth.ms, and the client's version"),
    ("during re-authentication", "the client logs in again on an open connection, but its credentials are no longer valid: "
     "the password was changed, or the user or the token was deleted", "sasl.jaas.config of the client; "
     "connections.max.reauth.ms"),
    ("instead of", "the client sends a request before its login is complete", "security.protocol of the client; its version"),
    ("sasl.jaas.config of this listener", "the listener's own login module cannot be used",
     "sasl.jaas.config of the listener"),
    ("authorization id", "the client asks to act as another user, but its credentials prove only its own user",
     "the authorization id (authzid) in sasl.jaas.config of the client"),
    ("asks for another name", "the client asks to act as another user than the user in its token",
     "the authorization id (authzid) in the client's settings; sasl.oauthbearer.sub.claim.name"),
    ("malformed", "the client's library does not follow the mechanism", "the version of the client's library"),
    ("delegation token", "the delegation token has expired or was never created",
     tool("kafka-delegation-tokens", "--describe")),
)  # fmt: skip
"""Texts that may occur in the reason of a failed login, each with the usual cause and the setting to look at."""
OF_TOKENS = {
    _PRINCIPALS: (
        "the client logs in again on an open connection (re-authentication), but its new token has another subject than its "
        "previous token",
        "the claim that names the user (sasl.oauthbearer.sub.claim.name of the broker) in both tokens; the client's login "
        "callback; a client that changes its user needs a new connection",
    )
}
"""For OAUTHBEARER, these causes and settings replace entries of `ADVICE_ON_LOGINS`."""


def _advice_on_login(reason: str, mechanism: str) -> tuple[str, str]:
    part, cause, look_at = next((each for each in ADVICE_ON_LOGINS if each[0] in reason), ("", "", ""))
    if mechanism == "OAUTHBEARER" and part in OF_TOKENS:
        return OF_TOKENS[part]
    if part:
        return cause.format(mechanism=mechanism), look_at
    if mechanism == "OAUTHBEARER":
        return "the token has expired, or its issuer, audience or key is not what the broker expects", (
            "sasl.oauthbearer.expected.audience and …issuer of the broker; the clocks of the broker and of the token's issuer"
        )
    return "the password is wrong, or the broker does not know the user for this mechanism", (
        f"sasl.jaas.config of the client; {tool('kafka-configs', '--describe --entity-type users')} shows SCRAM credentials"
    )


NAMED = 8
"""A finding about a denial names at most this many clients. For each connection, at most this many denials are remembered until
its next response."""
FIRST_REQUESTS = frozenset(("Metadata", "FindCoordinator", "OffsetFetch", "ListOffsets", "DescribeTopicPartitions"))
"""The requests that clients send first, before they read or write."""


class _Denied(Struct):
    evidence: Evidence = field(default_factory=Evidence)
    clients: dict[Client, None] = {}
    apis: dict[str, None] = {}

    def note(self, row: ReplyRow) -> None:
        """Note the response to the request that was denied."""
        self.apis[row.api] = None
        if len(self.clients) < NAMED:
            self.clients[client_of(row)] = None


class Denials(Detector):
    """Finds `denied`: operations that ACLs do not allow."""

    events = ("authorization", "reply")

    def __init__(self) -> None:
        self._found: Known[tuple[str, str, str, str], _Denied] = Known(_Denied)
        self._latest: Known[int, list[_Denied]] = Known(list)
        """For each connection, the denials since the connection's latest response."""
        self._refusals: Known[int, list[ReplyRow]] = Known(list)
        """For each connection, a list of at most one response: the connection's latest response, if this response has an
        authorization error.
        """

    def begin_run(self) -> None:
        """Forget the connections, because in a new run they have other numbers."""
        self._latest, self._refusals = Known(list), Known(list)

    def take(self, number: int, row: Row) -> None:
        """Take a row. The row of a response tells which request was denied. In a broker's trace, the row of the response comes
        after the row of the denial; in a proxy's trace, it comes before.
        """
        if isinstance(row, AuthorizationRow):
            denied = self._found[row.principal, row.operation, row.resource_type, row.resource]
            denied.evidence.add(number, row)
            if refusal := self._refusals.get(row.connection):
                denied.note(refusal[0])
            elif len(latest := self._latest[row.connection]) < NAMED:
                latest.append(denied)
        elif isinstance(row, ReplyRow):
            self._refusals.pop(row.connection, None)
            if denials := self._latest.pop(row.connection, None):
                for denied in denials:
                    denied.note(row)
            elif any(error.endswith("AUTHORIZATION_FAILED") for error in row.errors):
                self._refusals[row.connection][:] = [row]

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields one finding for all denials of the same principal, operation and resource."""
        for (principal, operation, kind, name), denied in self._found.items():
            evidence = denied.evidence
            row = evidence.rows[0].row
            why = row.reason if isinstance(row, AuthorizationRow) else ""
            who = ", ".join(each.unnamed for each in denied.clients)
            asked = f" for {', '.join(denied.apis)}" if denied.apis else ""
            sentence = (
                f"{principal}{f' ({who})' if who else ''} was denied {operation} on {kind} {name}{asked} "
                f"{times(evidence.count)} {_when(evidence)} ({why})."
            )
            option = {"TOPIC": "--topic", "GROUP": "--group", "TRANSACTIONAL_ID": "--transactional-id"}.get(kind)
            resource = f"{option} {quote(name)}" if option else "--cluster"
            needed, remark = _needed(operation, kind, set(denied.apis))
            add = f"--add --allow-principal {quote(principal)} --operation {needed} {resource}"
            yield Finding(
                "denied", sentence, "no ACL allows it, or an ACL denies it",
                f"{tool('kafka-acls', f'--list {resource}')}; to allow it: {tool('kafka-acls', add)}{remark}",
                f"event=authorization {equal('principal', principal)} {equal('resource', name)}", evidence, evidence.count,
                Shot("sequence", "", next(iter(denied.clients), Client(principal, "", "")).chosen),
            )  # fmt: skip


def _needed(operation: str, kind: str, apis: set[str]) -> tuple[str, str]:
    """Returns the operation that an ACL has to allow, and a remark. A client's first requests need only DESCRIBE, but its later
    requests need READ or WRITE. Both READ and WRITE imply DESCRIBE.
    """
    if operation != "DESCRIBE" or not apis <= FIRST_REQUESTS:
        return operation, ""
    if kind == "GROUP":
        return "READ", " (a consumer needs READ, which implies DESCRIBE: with DESCRIBE alone JoinGroup is denied next)"
    if kind == "TRANSACTIONAL_ID":
        return "WRITE", " (a producer needs WRITE, which implies DESCRIBE: with DESCRIBE alone InitProducerId is denied next)"
    if kind == "TOPIC":
        return "READ", " (a consumer needs READ; for a producer write WRITE instead. Both imply DESCRIBE)"
    return operation, ""


_Sender = tuple[Client, str, str, int]
"""The client, its software, the API and the version of requests."""


class UnsupportedVersions(Detector):
    """Finds `unsupported_version`: requests whose version the broker does not support."""

    events = ("unsupported", "reply", "connection")

    def __init__(self) -> None:
        self._refused: Known[_Sender, Evidence] = Known(Evidence)
        self._open: Known[int, dict[_Sender, Evidence | None]] = Known(dict)
        """For each open connection: the requests that the broker may have refused, by their sender, API and version. If the
        broker has answered a request of this sender, API and version, the value is None."""

    def take(self, number: int, row: Row) -> None:
        """Take a row. If the broker answers requests of a version, it supports the version, even if Kafka 4 does not. Errors of
        ApiVersions are ignored: they are normal, because a client first sends ApiVersions in the newest version that it knows.
        """
        if isinstance(row, ConnectionRow):
            if row.change == "closed":
                self._settle(self._open.pop(row.connection, None))
            return
        assert isinstance(row, UnsupportedRow | ReplyRow)
        sender = client_of(row), row.software, row.api, row.version
        if isinstance(row, UnsupportedRow):
            asked = self._open[row.connection].setdefault(sender, Evidence())
            if asked is not None:
                asked.add(number, row)
        elif "UNSUPPORTED_VERSION" not in row.errors:
            waiting = self._open.get(row.connection)
            if waiting is not None and sender in waiting:
                waiting[sender] = None
        elif row.api != "ApiVersions":
            self._refused[sender].add(number, row)

    def _settle(self, asked: dict[_Sender, Evidence | None] | None) -> None:
        """Remember that a connection will answer no more requests."""
        for sender, evidence in (asked or {}).items():
            if evidence is not None:
                self._refused.put(sender, Evidence.merged((self._refused[sender], evidence)))

    def begin_run(self) -> None:
        """Count the connections of the earlier run as closed."""
        for asked in self._open.values():
            self._settle(asked)
        self._open = Known(dict)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields one finding for each client and each version of an API in which the client's requests were refused."""
        by_sender = {sender: [evidence] for sender, evidence in self._refused.items()}
        for asked in self._open.values():
            for sender, waiting in asked.items():
                if waiting is not None:
                    by_sender.setdefault(sender, []).append(waiting)
        for (client, software, api, version), parts in by_sender.items():
            evidence = Evidence.merged(parts)
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
                evidence, evidence.count, Shot("sequence", "", client.chosen),
            )  # fmt: skip


THROTTLE = "throttle"
"""The kind of fault that tells clients to wait."""
QUOTAS = {"Produce": "producer_byte_rate", "Fetch": "consumer_byte_rate"}
"""For each API, the quota that usually throttles its requests."""
MUTATIONS = ("CreateTopics", "DeleteTopics", "CreatePartitions")


LONG_POLLS = frozenset(("Fetch", "ShareFetch"))
LATE = 5 * SECOND
"""If a response came at least this many ms after its request, the finding names the longest such time."""
QUOTA_WINDOW = 1 * SECOND
"""The longest throttle time in ms for request_percentage: quota.window.size.seconds, by default one second
(ClientRequestQuotaManager)."""


class _Waits(Struct):
    evidence: Evidence = field(default_factory=Evidence)
    total: int = 0
    longest: int = 0
    apis: set[str] = set()
    about: dict[str, None] = {}
    """the names that occur in the throttled requests"""
    moved: int = 0
    """the number of bytes that the client has sent or read since it was first throttled"""
    latest: int = 0
    """the time of the latest batch or response that is counted in `moved`"""
    late: int = 0
    """the longest time from a request to its response, in ms"""


class Throttling(Detector):
    """Finds `throttled`: clients that are throttled by quotas."""

    events = ("throttle", "fault", "produce", "shadow", "reply")

    def __init__(self) -> None:
        self._found: Known[tuple[Client, str, str, float], _Waits] = Known(_Waits)
        self._of_clients: Known[Client, list[_Waits]] = Known(list)
        self._by_faults: Known[tuple[Client, str], _Waits] = Known(_Waits)
        """For each client and each fault rule: how the rule has throttled the client."""
        self._faults: Known[ExchangeKey, list[_Waits]] = Known(list)
        """For each exchange (node, connection, correlation id) with such a fault: the entries of `_by_faults` in which the
        exchange counts.
        """

    def begin_run(self) -> None:
        """Forget the exchanges, because in a new run they have other numbers."""
        self._faults = Known(list)

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, ThrottleRow):
            found = self._found[client_of(row), row.quota, row.whose, row.limit]
            if not found.evidence.count and len(waits := self._of_clients[client_of(row)]) < NAMED:
                waits.append(found)
            found.evidence.add(number, row)
            found.total += row.ms
            found.longest = max(found.longest, row.ms)
            found.apis.add(row.api)
        elif isinstance(row, FaultRow):
            if row.kind == THROTTLE:
                found = self._by_faults[client_of(row), row.rule]
                found.evidence.add(number, row)
                found.apis.add(row.api)
                self._faults[exchange_of(row)][:] = [found]
        elif isinstance(row, ProduceRow):
            for found in self._of_clients.get(client_of(row)) or ():
                if "Produce" in found.apis and row.verdict == "accepted":
                    found.moved, found.latest = found.moved + row.bytes, row.time
        elif isinstance(row, ReplyRow):
            for found in self._faults.pop(exchange_of(row), ()):
                found.total += row.throttle_time_ms
                found.longest = max(found.longest, row.throttle_time_ms)
                found.about.update(dict.fromkeys(row.about[:NAMED]))
            for found in self._of_clients.get(client_of(row)) or ():
                if row.api in found.apis:
                    self._replied(found, row)

    def _replied(self, found: _Waits, row: ReplyRow) -> None:
        found.late = max(found.late, row.latency - (row.waited if row.api in LONG_POLLS else 0))
        if len(found.about) < NAMED:
            found.about.update(dict.fromkeys(row.about))
        if row.api == "Fetch":
            found.moved, found.latest = found.moved + row.bytes, row.time

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields one finding for each quota and each fault that has throttled a client."""
        for (client, rule), found in self._by_faults.items():
            told = f": it was told to wait {ms(found.total)} in all, at most {ms(found.longest)}," if found.total else ""
            yield Finding(
                "throttled",
                f"{capital(str(client))} was throttled {times(found.evidence.count)} {_when(found.evidence)} by a fault, "
                f"{rule}, and by no quota{told} for {', '.join(sorted(found.apis))}{_on(found)}.",
                f"the test asked for it: {rule}", "the faults of the test", f"event=fault kind={THROTTLE} {client.chosen}",
                found.evidence, found.total, Shot("sequence", "", client.chosen),
            )  # fmt: skip
        for (client, quota, whose, limit), found in self._found.items():
            apis = ", ".join(sorted(found.apis - {""})) or "its connections"
            by = f"the quota {quota} of {whose}, {limit:g}" if quota else f"a quota, probably {_likely(found)}"
            sentence = (
                f"{capital(str(client))} was throttled {times(found.evidence.count)} {_when(found.evidence)} by {by}: it was "
                f"told to wait {ms(found.total)} in all, at most {ms(found.longest)}, for {apis}{_on(found)}.{_rate(found)}"
            )
            user = client.principal.partition(":")[2]
            named = user not in ("ANONYMOUS", "", "?")
            entity = f"--entity-type users --entity-name {quote(user)}" if named else "--entity-type clients"
            yield Finding(
                "throttled", sentence,
                "the client sends or reads more than its quota allows. At first its requests only wait. Requests or records "
                "expire once a wait reaches request.timeout.ms or delivery.timeout.ms of the client",
                f"{tool('kafka-configs', f'--describe {entity}')}; the quotas of the client id and the defaults count, too",
                f"event=throttle {client.chosen}", found.evidence, found.total,
                Shot("sequence", "", client.chosen),
            )  # fmt: skip


def _likely(found: _Waits) -> str:
    names = {QUOTAS.get(api, "controller_mutation_rate" if api in MUTATIONS else "request_percentage") for api in found.apis}
    if names & set(QUOTAS.values()):
        if found.longest > QUOTA_WINDOW:
            return " or ".join(sorted(names)) + " (with request_percentage, no wait is longer than a window, 1 s by default)"
        names.add("request_percentage")
    return " or ".join(sorted(names))


def _on(found: _Waits) -> str:
    """Returns the end of a phrase that names the topics, or "" if the throttled requests name no topic."""
    topics = sorted({name.rpartition("-")[0] or name for name in found.about if " " not in name})
    return f" on {', '.join(topics[:3])}" if topics else ""


def _rate(found: _Waits) -> str:
    """Returns a sentence about the rate at which the client sent or read. If nothing else slows the client down, this rate is
    close to the quota."""
    length = found.latest - found.evidence.first_time
    if length < SECOND or not found.moved:
        return ""
    did = " and ".join(word for api, word in (("Produce", "sent"), ("Fetch", "read")) if api in found.apis)
    unknown = "" if getattr(found.evidence.rows[0].row, "quota", "") else "; the quota's value is not in the trace"
    late = f". Its requests queue up: the slowest response came {ms(found.late)} after its request" * (found.late >= LATE)
    return f" In the {ms(length)} after it was first throttled, it {did} {found.moved * SECOND // length:,} B/s{unknown}{late}."


def _when(evidence: Evidence) -> str:
    return between(evidence.first_time, evidence.last_time)
