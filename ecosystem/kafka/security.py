"""Secured listeners for the real Kafka of `ecosystem.kafka.server`.

    with KafkaServer(security=Security({"alice": "alice-secret"})) as kafka:
        host, port = kafka.addresses["SASL_SSL"]     # or SSL, SASL_PLAINTEXT, PLAINTEXT
        kafka.security.folder / "ca.pem"             # what clients trust
        kafka.security.folder / "client.pem"         # a client's key and certificate (CN=client), for mutual TLS

Each listener accepts PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 for the same users. SSL requests a client's certificate, but does
not require it (`ssl.client.auth=requested`). Brokers communicate with each other in plaintext. Other settings, such as an
authorizer (`authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer` with `super.users=User:ANONYMOUS`)
or `delegation.token.secret.key`, go into the settings of KafkaServer. With `oauth` the listeners also accept OAUTHBEARER. Needs
trustme.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ecosystem.kafka.releases import numbers

SECURED = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
INTERNAL = "INTERNAL"
"""A listener without TLS for the other brokers."""
PROTOCOLS = {"MTLS": "SSL", INTERNAL: "PLAINTEXT"}
"""The security protocol of each listener whose name is not a protocol."""
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
SERVER, CLIENT, CA = "server.pem", "client.pem", "ca.pem"
JAAS = "jaas.conf"
"""The file with the users of a broker. Only releases before 1.1 need it, because their settings cannot name users."""


@dataclass(frozen=True)
class OAuth:
    """The way in which a broker checks OAUTHBEARER tokens: as unsecured tokens with these options, or by the keys in a file."""

    options: Mapping[str, str] = field(default_factory=dict)
    keys: Path | None = None

    def settings(self, prefix: str) -> dict[str, str]:
        """Returns the settings with which a listener checks tokens."""
        named = ' unsecuredLoginStringClaim_sub="broker"' if self.options else ""  # the user as whom the broker itself logs in
        options = named + "".join(f' unsecuredValidator{name}="{value}"' for name, value in self.options.items())
        lines = {"sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required{options};"}
        if self.keys is not None:
            lines["sasl.server.callback.handler.class"] = f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
        return {f"{prefix}.oauthbearer.{name}": value for name, value in lines.items()} | (
            {} if self.keys is None else {"sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri()}
        )


class Security:
    """The passwords of a broker's users by name, and its listeners besides PLAINTEXT."""

    def __init__(
        self, users: Mapping[str, str] | None = None, listeners: tuple[str, ...] = SECURED, oauth: OAuth | None = None
    ) -> None:
        self.users, self.listeners, self.oauth = dict(users or {}), listeners, oauth
        self.folder = Path()
        """the folder of the certificates; once the broker has started, the certificates exist"""

    def make_certificates(self, folder: Path) -> None:
        """Write files into the folder: the users, the certificate of an authority, the key and certificate of a broker on this
        machine, and the key and certificate of a client.
        """
        import trustme

        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / CA))
        _write(folder / SERVER, authority.issue_cert("127.0.0.1", "localhost"))
        _write(folder / CLIENT, authority.issue_cert("client@example.org", common_name="client"))
        (folder / JAAS).write_text(f"KafkaServer {{ {PLAIN}{self._passwords()}; {SCRAM_LOGIN} }};\n")

    def settings(self) -> dict[str, str]:
        """Returns the broker's settings, without its listeners."""
        encrypted = any("SSL" in PROTOCOLS.get(each, each) for each in self.listeners)  # releases before 2.7 read no PEM
        lines = self._stores() if encrypted else {}
        protocols = {each: PROTOCOLS.get(each, each) for each in ("PLAINTEXT", *self.listeners)} | {"CONTROLLER": "PLAINTEXT"}
        lines |= {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            **({"ssl.client.auth": "requested"} if encrypted else {}),
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, *(["OAUTHBEARER"] if self.oauth else []))),
        }
        for listener in self.listeners:
            if listener.startswith("SASL"):
                prefix = f"listener.name.{listener.lower()}"
                lines[f"{prefix}.plain.sasl.jaas.config"] = f"{PLAIN}{self._passwords()};"
                lines |= {f"{prefix}.{each.lower()}.sasl.jaas.config": SCRAM_LOGIN for each in SCRAM}
                lines |= self.oauth.settings(prefix) if self.oauth is not None else {}
        return lines

    def _passwords(self) -> str:
        return "".join(f' user_{name}="{password}"' for name, password in self.users.items())

    def _stores(self) -> dict[str, str]:
        """Returns the settings with the broker's key and certificates. The settings contain the key itself, because Kafka 2.7
        and 2.8 read a file only if the key in the file is encrypted."""
        key = (self.folder / SERVER).read_text().replace("\n", "\\n")
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": key,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / CA),
        }

    def java_options(self, version: str) -> list[str]:
        """Returns the JVM argument that a broker of this version needs to read the key sets, or the users, from a file."""
        if self.listeners and numbers(version) < (1, 1):
            return [f"-Djava.security.auth.login.config={self.folder / JAAS}"]
        keys = None if self.oauth is None else self.oauth.keys
        return [] if keys is None else [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"]

    def format_arguments(self) -> list[str]:
        """Returns the arguments of `kafka-storage format` that create the users before the first start."""
        return [
            argument
            for name, password in self.users.items()
            for mechanism in SCRAM
            for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]


def _write(path: Path, issued: object) -> None:
    """Writes the key followed by the certificates. The key has the form PKCS #8, the only form that Java reads."""
    from cryptography.hazmat.primitives import serialization as form

    key = form.load_pem_private_key(issued.private_key_pem.bytes(), None)  # type: ignore[attr-defined]
    text = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)  # type: ignore[attr-defined]
    path.write_bytes(text + chain)
