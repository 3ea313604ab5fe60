"""The settings that wirebroker's own client uses to reach a cluster: TLS, SASL and a rate limit. They come from a client
properties file, which Kafka's tools can also read.

    security.protocol=SASL_SSL
    ssl.truststore.type=PEM
    ssl.truststore.location=/etc/kafka/ca.pem
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="audit" password="…";

Spark's driver reads the file, and the certificates that the file names. Spark's executors get the contents, so they do not need
the files. No message and no `repr` shows a password or a key.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from wirebroker.client import java_properties
from wirebroker.client.jaas import PLAIN_MODULE, SCRAM_MODULE, login_modules
from wirebroker.client.stores import load_identity, pem_of
from wirebroker.common.complaints import Complaint
from wirebroker.common.java_texts import trim
from wirebroker.common.suggestions import did_you_mean

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
OLD_TLS_VERSIONS = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
"""The TLS versions that Java has, but does not use by default."""
UNDERSTOOD = frozenset(
    {
        "security.protocol", "sasl.mechanism", "sasl.jaas.config", "client.id", "request.timeout.ms",
        "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates",
        "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password", "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols",
    }
)  # fmt: skip
REFUSED = frozenset(
    {
        "config.providers", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
        "security.providers", "ssl.engine.factory.class",
    }
)  # fmt: skip
"""Settings that make Kafka's clients run other code to log in or to check certificates. wirebroker refuses these settings. All
other settings that it does not support, such as the settings of consumers and producers, have no effect."""
SPELLING = 0.9
"""An unknown name with at least this similarity (0 to 1) to a supported name counts as misspelt."""
CLIENT_ID, TIMEOUT_MS = "wirebroker-audit", 30_000


class BadConfig(Complaint):
    """Raised if a file with client settings is refused. The error message names the place and the reason, without passwords."""


@dataclass(frozen=True, slots=True)
class Access:
    """The way to reach the brokers of a cluster: the protocol, the login, the certificates and the rate limit.

    The default is plaintext, without a rate limit.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    by_token: bool = False
    """true: the user and the password are the id and the HMAC of a delegation token"""
    trusted: str = ""
    """certificates of the trusted authorities in PEM; "" means the system's authorities"""
    identity: str = field(default="", repr=False)
    """the client's key and certificates in PEM, "" for none"""
    key_password: str = field(default="", repr=False)
    checks_host: bool = True
    tls_versions: tuple[str, ...] = ()
    client_id: str = CLIENT_ID
    timeout_ms: int = TIMEOUT_MS
    max_rate: float = 0
    """bytes a second, 0 for no limit"""

    def text(self) -> str:
        """Returns the whole access as text, for the secret option of a Spark data source."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Access:
        """Returns the access in the options of a Spark data source, or the default access if the option is missing."""
        told = json.loads(options.get(OPTION, "{}"))
        return cls(**(told | {"tls_versions": tuple(told.get("tls_versions", ()))}))

    def shared_by(self, tasks: int) -> Access:
        """Returns a copy for one task, if `tasks` tasks run at the same time. Each task gets an equal part of the rate
        limit."""
        return replace(self, max_rate=self.max_rate / max(tasks, 1))

    def context(self) -> ssl.SSLContext | None:
        """Returns the SSL context for the sockets, or None if the access does not use TLS. Raises BadStore, and ssl.SSLError
        for a text that is not a certificate.
        """
        if not self.protocol.endswith("SSL"):
            return None
        context = ssl.create_default_context(cadata=self.trusted or None)
        context.check_hostname = self.checks_host
        if self.tls_versions:
            context.minimum_version = TLS_VERSIONS[min(self.tls_versions)]
            context.maximum_version = TLS_VERSIONS[max(self.tls_versions)]
        if self.identity:
            load_identity(context, self.identity, self.key_password)
        return context


OPTION = "access.secret"
"""The name of the Data Source option. Spark hides the values of options whose names contain `secret`."""


def read_access(path: str) -> Access:
    """Returns the access that a client properties file describes. Raises BadConfig."""
    try:
        text = Path(path).read_bytes().decode("latin-1")  # Java reads the file in this encoding
        if "\0" in text:
            raise BadConfig("this is not text")
        access = _access({name: trim(value) for name, value in java_properties.parse(text).items()})
        access.context()
    except OSError as refused:
        raise BadConfig(f"--command-config {path}: {refused.strerror}") from refused
    except ssl.SSLError as wrong:
        raise BadConfig(f"--command-config {path}: a certificate or key cannot be used: {wrong.reason or wrong}") from wrong
    except (BadConfig, ValueError) as wrong:
        raise BadConfig(f"--command-config {path}: {wrong}") from None
    return access


def _access(pairs: Mapping[str, str]) -> Access:
    for name in pairs:
        if name in REFUSED:
            raise BadConfig(f"{name} is not supported by wirebroker; remove the line")
        if name not in UNDERSTOOD and (advice := did_you_mean(name, UNDERSTOOD, SPELLING)):
            raise BadConfig(f"Kafka's clients have no setting {name}{advice}")
    protocol = pairs.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadConfig(f"security.protocol is {protocol}, expected one of {', '.join(PROTOCOLS)}")
    made: dict[str, Any] = {"protocol": protocol, "client_id": pairs.get("client.id", CLIENT_ID)}
    if protocol.startswith("SASL"):
        made |= _login(pairs)
    if protocol.endswith("SSL"):
        made |= {"trusted": pem_of("truststore", pairs), "identity": pem_of("keystore", pairs)}
        made["key_password"] = pairs.get("ssl.key.password", "")
    versions = tuple(filter(None, map(str.strip, pairs.get("ssl.enabled.protocols", "").split(","))))
    spoken = tuple(each for each in versions if each in TLS_VERSIONS)
    unknown = [each for each in versions if each not in (*TLS_VERSIONS, *OLD_TLS_VERSIONS)]
    if unknown or (versions and not spoken):
        raise BadConfig(f"ssl.enabled.protocols has {(*unknown, *versions)[0]}; wirebroker speaks {' and '.join(TLS_VERSIONS)}")
    timeout = pairs.get("request.timeout.ms", str(TIMEOUT_MS))
    if not timeout.isdecimal() or int(timeout) == 0:
        raise BadConfig(f"request.timeout.ms is {timeout!r}, expected a number of milliseconds above 0")
    algorithm = pairs.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("", "https", "ldaps"):
        raise BadConfig(f"ssl.endpoint.identification.algorithm is {algorithm}; it may be https or empty")
    return Access(**made, checks_host=bool(algorithm), tls_versions=spoken, timeout_ms=int(timeout))


def _login(pairs: Mapping[str, str]) -> dict[str, Any]:
    """Returns the mechanism, user and password of a SASL login."""
    mechanism = pairs.get("sasl.mechanism", "GSSAPI")  # Kafka's default
    if mechanism not in MECHANISMS:
        raise BadConfig(f"sasl.mechanism is {mechanism}; wirebroker speaks {', '.join(MECHANISMS)}")
    try:
        (module,) = login_modules(pairs.get("sasl.jaas.config", ""))
    except ValueError:
        raise BadConfig('sasl.jaas.config is missing or is not `MODULE required username="…" password="…";`') from None
    if module.name not in (PLAIN_MODULE, SCRAM_MODULE):
        raise BadConfig(f"sasl.jaas.config names {module.name}, but {mechanism} needs {PLAIN_MODULE} or {SCRAM_MODULE}")
    options = module.options  # the login module ignores unknown options
    if not {"username", "password"} <= options.keys():
        raise BadConfig('sasl.jaas.config needs username="…" and password="…"')
    by_token = module.name == SCRAM_MODULE and options.get("tokenauth", "").lower() == "true"
    return {"mechanism": mechanism, "username": options["username"], "password": options["password"], "by_token": by_token}
