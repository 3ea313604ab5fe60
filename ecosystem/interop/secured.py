"""Sets up the secured listeners, users, ACLs and quota that some checks need, in the same way on wirebroker and on a real
Kafka.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from bench.process import Server
from ecosystem.brokers import WIREBROKER
from ecosystem.kafka.security import CA, CLIENT, OAuth, Security
from ecosystem.kafka.server import KafkaServer
from kafkawire.registry import KEYS, request_class
from wirebroker.client.wire import Connection, address_of
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.security.web_tokens import unsecured_token
from wirebroker.testing.client_settings import Access, client_settings
from wirebroker_tools.decode.plain import message_of

USERS = {"alice": "alice-secret", "bob": "bob-secret", "limited": "limited-secret"}
LISTENERS = {"SSL": "SSL", "MTLS": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
REFUSED = "interop-refused"
"""bob may describe this topic, and no user may write to it."""
QUOTA = 10_000
"""The produce quota of the user `limited`, in bytes a second."""
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "listener.name.mtls.ssl.client.auth": "required",
}
LIBRARIES = ("confluent", "java", "kafkajs", "franz-go")
SPREADS_WITHIN = 20.0
"""After this many seconds, an ACL and a quota are in effect in every part of a broker."""


@dataclass(frozen=True)
class Way:
    """The listener, SASL mechanism and user that a client uses for a check."""

    listener: str
    mechanism: str = ""
    user: str = "alice"


WAYS = {
    "tls": Way("SSL"),
    "mtls": Way("MTLS"),
    "sasl-plain": Way("SASL_PLAINTEXT", "PLAIN"),
    "scram-sha-256": Way("SASL_SSL", "SCRAM-SHA-256"),
    "scram-sha-512": Way("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    "oauthbearer": Way("SASL_SSL", "OAUTHBEARER"),
    "acl": Way("SASL_PLAINTEXT", "PLAIN", "bob"),
    "quota": Way("SASL_PLAINTEXT", "PLAIN", "limited"),
}
"""The checks that need a secured broker."""


@dataclass(frozen=True)
class Secured:
    """A broker's addresses by listener, and its certificates."""

    plain: str
    addresses: Mapping[str, str]
    certificates: Path

    def access(self, check: str) -> Access:
        """Returns the address, the credentials and the certificates that clients use for this check."""
        way = WAYS[check]
        protocol = SecurityProtocol[LISTENERS[way.listener]]
        return Access(
            self.addresses[way.listener], protocol, way.mechanism, way.user, USERS[way.user],
            self.certificates / CA if protocol.tls else None,
            self.certificates / CLIENT if way.listener == "MTLS" else None,
            lambda: token_of(way.user),
        )  # fmt: skip

    def write(self, path: Path) -> None:
        """Write a JSON file for the programs. For each check, the file says how a client reaches the broker, in the settings
        of each library.
        """
        path.write_text(json.dumps({check: dict(_forms(self.access(check))) for check in WAYS}))


def on_wirebroker(stack: ExitStack, flags: Sequence[str]) -> Secured:
    """Start wirebroker with all listeners. Raises ServerFailed."""
    command = [*WIREBROKER, "serve", "--port", "0", "--tls", "auto"]
    command += [f"--listener={name}={protocol}://127.0.0.1:0" for name, protocol in LISTENERS.items()]
    command += [f"--user={name}:{password}" for name, password in USERS.items()]
    settings = SETTINGS | {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"}
    command += [f"--config={name}={value}" for name, value in settings.items()]
    server = stack.enter_context(Server([*command, *flags]))
    addresses = {name: where for where, name in re.findall(r"listening on (\S+) \(node 1, (\w+)", server.output)}
    (authority,) = re.findall(r"certificate authority in (.+)", server.output)
    return _prepared(Secured(server.address, addresses, Path(authority).parent))


def on_kafka(stack: ExitStack) -> Secured:
    """Start a real Kafka with all listeners. Raises KafkaUnavailable."""
    security = Security(USERS, tuple(LISTENERS), OAuth({"PrincipalClaimName": "sub"}))
    kafka = stack.enter_context(KafkaServer(SETTINGS, heap="1g", security=security))
    addresses = {name: "{}:{}".format(*where) for name, where in kafka.addresses.items()}
    return _prepared(Secured(addresses["PLAINTEXT"], addresses, security.folder))


def written(stack: ExitStack, secured: Secured) -> str:
    """Writes the programs' settings to a temporary file, and returns its name."""
    path = Path(stack.enter_context(tempfile.TemporaryDirectory()), "access.json")
    secured.write(path)
    return str(path)


def token_of(user: str) -> str:
    """Returns an unsigned token that is valid for an hour."""
    now = int(time.time())
    return unsecured_token({"sub": user, "iat": now, "exp": now + 3600})


def _forms(access: Access) -> Iterator[tuple[str, Any]]:
    for library in LIBRARIES:
        yield library, client_settings(library, access)
    named = {each.name: getattr(access, each.name) for each in fields(access)}
    files = {name: str(named[name]) if named[name] else None for name in ("ca", "client")}
    yield "access", named | files | {"protocol": access.protocol.name, "token": access.token()}


def _prepared(secured: Secured) -> Secured:
    """Create the topic, its ACL and the quota, and wait until the ACL and the quota are in effect."""
    topic = {"name": REFUSED, "num_partitions": 1, "replication_factor": 1}
    acl = {"resource_type": 2, "resource_pattern_type": 3, "resource_name": REFUSED}
    acl |= {"principal": "User:bob", "host": "*", "operation": 8, "permission_type": 3}  # bob may describe the topic
    whose = [{"entity_type": "user", "entity_name": "limited"}, {"entity_type": "client-id", "entity_name": None}]
    limit = [{"key": "producer_byte_rate", "value": QUOTA, "remove": False}]
    anything = dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1)
    every_acl = anything | dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    with closing(Connection(address_of(secured.plain))) as admin:

        def ask(api: str, body: Mapping[str, Any], version: int) -> Any:
            return admin.request(message_of(request_class(KEYS[api]), body, lambda _, path: b""), version)

        ask("CreateTopics", {"topics": [topic], "timeout_ms": 10_000}, 5)
        ask("CreateAcls", {"creations": [acl]}, 2)
        ask("AlterClientQuotas", {"entries": [{"entity": whose, "ops": limit}], "validate_only": False}, 1)
        deadline = time.monotonic() + SPREADS_WITHIN
        while not (
            ask("DescribeAcls", every_acl, 2).resources
            and ask("DescribeClientQuotas", {"components": [], "strict": False}, 1).entries
        ):
            assert time.monotonic() < deadline, "the broker has no ACL or no quota"
    return secured
