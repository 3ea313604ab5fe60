"""The settings with which a client library connects to a broker: address, security protocol, user and certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wirebroker.common.suggestions import did_you_mean, nearest
from wirebroker.security.mechanisms import OAUTHBEARER, SERVED
from wirebroker.security.protocols import SecurityProtocol

__tracebackhide__ = True  # pytest shows the caller's line

Library = Literal[
    "kafka-python", "aiokafka", "java", "kafkajs", "franz-go", "confluent", "librdkafka", "node-rdkafka", "rdkafka", "dotnet"
]
MechanismName = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
LIBRDKAFKA = ("confluent", "librdkafka", "node-rdkafka", "rdkafka", "dotnet")
LOGINS = {"PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule"}
OAUTH_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class Access:
    """The data with which a client connects to a broker. `user` and `password` are for SASL. `ca` and `client` are paths for
    TLS: the file `client` contains a key and a certificate.

    `token` returns a new OAUTHBEARER token that is valid for an hour.
    """

    bootstrap_servers: str
    protocol: SecurityProtocol
    mechanism: str = ""
    user: str = ""
    password: str = ""
    ca: Path | None = None
    client: Path | None = None
    token: Callable[[], str] = str


def client_settings(library: str, access: Access) -> dict[str, Any]:
    """Returns the settings for a library, under the library's names. Raises ValueError for an unknown library or
    mechanism."""
    known = {
        "kafka-python": _kafka_python, "aiokafka": _aiokafka, "java": _java, "kafkajs": _kafkajs, "franz-go": _franz_go,
    } | dict.fromkeys(LIBRDKAFKA, _librdkafka)  # fmt: skip
    if library not in known:
        raise ValueError(
            f"there are no settings for the library {library!r}{did_you_mean(library, known)}; known: {', '.join(known)}"
        )
    if access.protocol.sasl and access.mechanism not in SERVED:
        raise ValueError(f"there is no mechanism {access.mechanism!r}{nearest(access.mechanism, SERVED)}")
    return known[library](access)


def _kafka_python(access: Access) -> dict[str, Any]:
    settings = _python(access)
    if access.mechanism == OAUTHBEARER and access.protocol.sasl:
        from kafka.net.sasl.oauth import AbstractTokenProvider

        class Provider(AbstractTokenProvider):  # type: ignore[misc]
            def token(self) -> str:
                return access.token()

        settings["sasl_oauth_token_provider"] = Provider()
    return settings


def _python(access: Access) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": access.bootstrap_servers, "security_protocol": access.protocol.name}
    if access.protocol.sasl and access.mechanism == OAUTHBEARER:
        settings["sasl_mechanism"] = OAUTHBEARER
    elif access.protocol.sasl:
        settings |= {
            "sasl_mechanism": access.mechanism, "sasl_plain_username": access.user, "sasl_plain_password": access.password,
        }  # fmt: skip
    if access.ca is not None:
        settings["ssl_cafile"] = str(access.ca)
    if access.client is not None:
        settings |= {"ssl_certfile": str(access.client), "ssl_keyfile": str(access.client)}
    return settings


def _aiokafka(access: Access) -> dict[str, Any]:
    settings = {name: value for name, value in _python(access).items() if not name.startswith("ssl_")}
    if access.ca is not None:
        import ssl

        settings["ssl_context"] = context = ssl.create_default_context(cafile=str(access.ca))
        if access.client is not None:
            context.load_cert_chain(access.client)
    if access.protocol.sasl and access.mechanism == OAUTHBEARER:
        from aiokafka.abc import AbstractTokenProvider

        class Provider(AbstractTokenProvider):  # type: ignore[misc]
            async def token(self) -> str:
                return access.token()

        settings["sasl_oauth_token_provider"] = Provider()
    return settings


def _librdkafka(access: Access) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.protocol.name.lower(),
    }
    if access.protocol.sasl and access.mechanism == OAUTHBEARER:
        unsecured = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": f"principal={access.user}"}
        settings |= {"sasl.mechanism": OAUTHBEARER} | unsecured
    elif access.protocol.sasl:
        settings |= {"sasl.mechanism": access.mechanism, "sasl.username": access.user, "sasl.password": access.password}
    if access.ca is not None:
        settings["ssl.ca.location"] = str(access.ca)
    if access.client is not None:
        settings |= {"ssl.certificate.location": str(access.client), "ssl.key.location": str(access.client)}
    return settings


def _java(access: Access) -> dict[str, Any]:
    settings = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.protocol.name}
    if access.protocol.sasl:
        user, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (access.user, access.password))
        login = f'{LOGINS.get(access.mechanism, SCRAM_LOGIN)} required username="{user}" password="{password}";'
        if access.mechanism == OAUTHBEARER:
            login = f'{OAUTH_LOGIN} required unsecuredLoginStringClaim_sub="{user}";'
        settings |= {"sasl.mechanism": access.mechanism, "sasl.jaas.config": login}
    for store, file in (("truststore", access.ca), ("keystore", access.client)):
        if file is not None:
            settings |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(file)}
    return settings


def _kafkajs(access: Access) -> dict[str, Any]:
    settings: dict[str, Any] = {"brokers": access.bootstrap_servers.split(",")}
    if access.protocol.sasl:
        settings["sasl"] = {"mechanism": access.mechanism.lower()} | _credentials(access, "username")
    if access.ca is not None:
        client = access.client.read_text() if access.client is not None else ""
        settings["ssl"] = {"ca": [access.ca.read_text()]} | ({"key": client, "cert": client} if client else {})
    return settings


def _franz_go(access: Access) -> dict[str, Any]:
    """Returns the arguments for franz-go's options in Go code: `kgo.SeedBrokers`, `kgo.SASL`, `kgo.DialTLSConfig`."""
    settings: dict[str, Any] = {"seed_brokers": access.bootstrap_servers.split(","), "protocol": access.protocol.name}
    if access.protocol.sasl:
        settings |= {"mechanism": access.mechanism} | _credentials(access, "user")
    return settings | {name: str(file) for name, file in (("ca", access.ca), ("client", access.client)) if file is not None}


def _credentials(access: Access, user: str) -> dict[str, str]:
    """Returns the user's name and password, or a token if the mechanism is OAUTHBEARER."""
    if access.mechanism == OAUTHBEARER:
        return {"token": access.token()}
    return {user: access.user, "password": access.password}
