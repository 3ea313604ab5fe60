"""TLS: certificates of brokers and of clients, principals from certificates, and clients without TLS."""

from __future__ import annotations

import logging
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka.admin
import kafka as kafka_python
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.name import _ASN1Type

from kafkawire.frames import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.metadata import MetadataRequest
from test_serve import COMMAND
from wirebroker import MockKafka
from wirebroker.client.settings import BadConfig, read_access
from wirebroker.client.wire import address_of
from wirebroker.commands.proxy import upstream_tls
from wirebroker.commands.usage import UsageError
from wirebroker.net.tls import TlsError, tls_of
from wirebroker.security.principals import PrincipalRules, distinguished_name
from wirekit import dial


def context(kafka: MockKafka, *, certificate: bool = False) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(kafka.tls_folder / "ca.pem"))
    if certificate:
        made.load_cert_chain(kafka.tls_folder / "client.pem")
    return made


def ask(kafka: MockKafka, trusting: ssl.SSLContext) -> bytes:
    """Sends ApiVersions over TLS, and checks that the certificate is valid for the address. Returns the first bytes
    received.
    """
    host, port = address_of(kafka.bootstrap_servers)
    with socket.create_connection((host, port), 5) as plain, trusting.wrap_socket(plain, server_hostname=host) as secured:
        secured.sendall(encode_request(7, "test", ApiVersionsRequest(), 0))
        return secured.recv(8)


def wait_for(caplog: pytest.LogCaptureFixture, kafka: MockKafka, pattern: str) -> None:
    kafka.wait_until(lambda: any(re.search(pattern, record.getMessage()) for record in caplog.records))


@pytest.fixture
def secured() -> Iterator[MockKafka]:
    with MockKafka(security="ssl", topics={"orders": 1}) as kafka:
        yield kafka


SETTINGS = {"security_protocol": "SSL", "api_version": (2, 8)}


def test_kafka_python_produces(secured: MockKafka) -> None:
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=secured.bootstrap_servers, security_protocol="SSL", ssl_cafile=str(secured.tls_folder / "ca.pem")
    )
    assert producer.send("orders", b"a pound of tea").get(10).offset == 0
    assert producer.send("orders", bytes(900_000)).get(10).offset == 1, "a large frame arrives in many TLS records"
    producer.close()
    assert secured.trace.events("authentication") == []


def test_keys_have_the_only_form_that_java_reads(secured: MockKafka) -> None:
    for name in ("client.pem", "server.pem"):
        assert (secured.tls_folder / name).read_text().startswith("-----BEGIN PRIVATE KEY-----")


@pytest.mark.asyncio
async def test_aiokafka_logs_in_by_sasl_over_tls() -> None:
    async with MockKafka(security="sasl_ssl", users={"alice": "secret"}, topics={"orders": 1}) as kafka:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="alice", sasl_plain_password="secret", ssl_context=context(kafka),
        )  # fmt: skip
        async with producer:
            assert (await producer.send_and_wait("orders", b"a pound of tea")).offset == 0


def test_librdkafka_shows_a_certificate() -> None:
    rules = r"RULE:^CN=([^,]+),OU=.*$/$1/U,DEFAULT"
    configs = {"ssl.client.auth": "required", "listener.name.ssl.ssl.principal.mapping.rules": rules}
    with MockKafka(security="ssl", configs=configs) as kafka:
        folder = kafka.tls_folder
        admin = confluent_kafka.admin.AdminClient({
            "bootstrap.servers": kafka.bootstrap_servers, "security.protocol": "ssl", "ssl.ca.location": str(folder / "ca.pem"),
            "ssl.certificate.location": str(folder / "client.pem"), "ssl.key.location": str(folder / "client.pem"),
        })  # fmt: skip
        assert admin.list_topics(timeout=10).brokers
        assert {(row.mechanism, row.principal) for row in kafka.trace.events("authentication")} == {("SSL", "User:CLIENT")}


@pytest.mark.parametrize("client", ["none", "requested"])
def test_a_client_without_a_certificate_is_anonymous(client: str) -> None:
    with MockKafka(security="ssl", configs={"ssl.client.auth": client}) as kafka:
        assert ask(kafka, context(kafka))
        assert ask(kafka, context(kafka, certificate=True))
        names = [row.principal for row in kafka.trace.events("authentication")]
        assert len(names) == (client == "requested")
        assert all(re.fullmatch(r"User:CN=client,OU=.*,O=trustme.*", name) for name in names)


@pytest.mark.parametrize("prefix", ["", "listener.name.ssl."])
def test_a_missing_certificate_is_refused(caplog: pytest.LogCaptureFixture, prefix: str) -> None:
    with (
        caplog.at_level(logging.INFO, "wirebroker"),
        MockKafka(security="ssl", configs={f"{prefix}ssl.client.auth": "required"}) as kafka,
    ):
        with suppress(OSError):
            assert ask(kafka, context(kafka)) == b""
        wait_for(caplog, kafka, "a TLS handshake at SSL failed: the client has no certificate, and ssl.client.auth is required")


def test_a_certificate_of_a_stranger_is_refused(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with (
        caplog.at_level(logging.INFO, "wirebroker"),
        MockKafka(security="ssl", configs={"ssl.client.auth": "requested"}) as kafka,
    ):
        trusting = context(kafka)
        trustme.CA().issue_cert("x@y.org").configure_cert(trusting)
        with suppress(OSError):
            assert ask(kafka, trusting) == b""
        wait_for(caplog, kafka, "failed: the client's certificate is refused: (unable to get local issuer|self-signed)")


def test_a_client_that_does_not_trust_the_broker(secured: MockKafka, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "wirebroker"):
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(secured, ssl.create_default_context())
        wait_for(caplog, secured, "the client does not trust the authority of the broker's certificate")


@pytest.mark.parametrize(
    ("sent", "cause"),
    [(encode_request(1, "me", MetadataRequest(topics=[]), 9), "plaintext"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP")],
    ids=["a Kafka request", "HTTP"],
)
def test_plaintext_on_a_tls_port(secured: MockKafka, caplog: pytest.LogCaptureFixture, sent: bytes, cause: str) -> None:
    with caplog.at_level(logging.INFO, "wirebroker"), dial(secured) as connection:
        connection.sendall(sent)
        while connection.recv(100):
            pass
        wait_for(caplog, secured, f"a TLS handshake at SSL failed: the client speaks {cause}, and this listener speaks TLS")
        lines = [record for record in caplog.records if "TLS handshake" in record.getMessage()]
        assert len(lines) == 1
    assert ask(secured, context(secured)), "other connections are not disturbed"


def test_a_handshake_that_stalls_disturbs_nobody(secured: MockKafka) -> None:
    with dial(secured) as stalled:
        stalled.sendall(b"\x16\x03\x01\x00\xc8")
        assert ask(secured, context(secured))


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("nothing")
    for where, problem in ((tmp_path / "no.pem", "certificate and key cannot be used"), (tmp_path / "x", "No such file")):
        configs = {"ssl.keystore.location": str(where), "ssl.keystore.type": "PEM"}
        with pytest.raises(TlsError, match=problem), MockKafka(security="ssl", configs=configs):
            pass


def test_a_key_whose_password_nobody_gave_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    issued, path = trustme.CA().issue_cert("localhost"), str(tmp_path / "encrypted.pem")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    Path(path).write_bytes(pem + b"".join(each.bytes() for each in issued.cert_chain_pems))
    said = r"the key is encrypted, and no password is given\. Set ssl\.key\.password"
    stored = {"ssl.keystore.type": "PEM", "ssl.keystore.location": path}
    with pytest.raises(TlsError, match=f"encrypted.pem: {said}"), MockKafka(security="ssl", configs=stored):
        pass
    with pytest.raises(UsageError, match=said):
        upstream_tls(path, path, None)
    stored["security.protocol"] = "SSL"
    settings = tmp_path / "client.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in stored.items()))
    with pytest.raises(BadConfig, match=said):
        read_access(str(settings))


def test_a_start_that_fails_leaves_no_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kafka = MockKafka(security="ssl", host="203.0.113.1")  # an address that no machine has
    with pytest.raises(OSError, match="203"):
        kafka.start()
    assert not list(tmp_path.iterdir())


def test_certificates_signed_with_sha_1_as_kafka_takes_them() -> None:
    """Kafka 4.3.1 accepts SHA-1 certificates of brokers and clients, with TLS 1.2 and 1.3. OpenSSL needs a lower security
    level.
    """
    old = str(Path(__file__).parent / "data" / "signed-with-sha-1.pem")  # a key, its certificate, and the authority's
    configs = {"ssl.client.auth": "required"}
    for store in ("keystore", "truststore"):
        configs |= {f"ssl.{store}.location": old, f"ssl.{store}.type": "PEM"}
    with (
        pytest.raises(TlsError, match=r"SHA-1: ssl.cipher.suites=@SECLEVEL=0 allows"),
        MockKafka(security="ssl", configs=configs),
    ):
        pass
    client = ssl.create_default_context(cafile=old)
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    client.load_cert_chain(old)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # fails if a warning says that ssl.cipher.suites has no effect
        with MockKafka(security="ssl", configs=configs | {"ssl.cipher.suites": "@SECLEVEL=0"}) as kafka:
            assert ask(kafka, client)


@pytest.mark.parametrize(
    ("store", "command"), [("keystore", "keytool -importkeystore -srckeystore a.jks"), ("truststore", "keytool -list -rfc")]
)
def test_how_to_make_pem_of_a_java_store_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, command: str
) -> None:
    (tmp_path / "a.jks").write_bytes(b"\xce\xce\xce\xce\0\0\0\2")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TlsError, match=f"a.jks is a Java store in the format JCEKS.*{command}.*set ssl.{store}.type=PEM"):
        MockKafka(security="ssl", configs={f"ssl.{store}.location": "a.jks"}).start()


def made_stores(folder: Path, authority: trustme.CA) -> dict[str, str]:
    """Makes two PKCS12 stores: one with a certificate for 127.0.0.1, and one with the certificate's authority. Returns Kafka's
    settings for the stores.
    """
    issued = authority.issue_cert("127.0.0.1", "localhost", common_name="both")
    (folder / "ca.pem").write_bytes(authority.cert_pem.bytes())
    trusted = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key: Any = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    own = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    lock = serialization.BestAvailableEncryption(b"s3cret")
    (folder / "key.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"both", key, own, [trusted], lock))
    (folder / "trust.p12").write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [trusted], lock))
    stores = {"keystore": str(folder / "key.p12"), "truststore": str(folder / "trust.p12")}
    locations = {f"ssl.{store}.location": path for store, path in stores.items()}
    return locations | {
        f"ssl.{store}.{end}": text for store in stores for end, text in (("type", "PKCS12"), ("password", "s3cret"))
    }


def java_stores(folder: Path, authority: trustme.CA) -> dict[str, str]:
    """Makes the same stores as `made_stores`, but with Java's keytool, as users of Kafka do. Returns the Kafka settings for the
    stores."""
    settings = made_stores(folder, authority)
    for store in ("keystore", "truststore"):
        path = Path(settings[f"ssl.{store}.location"])
        path.rename(path.with_suffix(".old"))
        own = ["-importkeystore", "-srckeystore", str(path.with_suffix(".old")), "-srcstorepass", "s3cret"]
        words = own if store == "keystore" else ["-importcert", "-noprompt", "-alias", "ca", "-file", str(folder / "ca.pem")]
        password = ["-deststorepass" if store == "keystore" else "-storepass", "s3cret"]
        place = ["-destkeystore" if store == "keystore" else "-keystore", str(path)]
        kind = ["-deststoretype" if store == "keystore" else "-storetype", "PKCS12"]
        subprocess.run(["keytool", *words, *place, *password, *kind], check=True, capture_output=True)
        settings[f"ssl.{store}.type"] = "JKS"  # Kafka's default type; with this type, Java also reads PKCS12 stores
    return settings


MADE_BY = [
    made_stores,
    pytest.param(java_stores, marks=pytest.mark.skipif(not shutil.which("keytool"), reason="needs keytool")),
]


@pytest.mark.parametrize("make", MADE_BY)
def test_stores_in_pkcs12_serve_the_broker_and_our_own_clients(
    tmp_path: Path, make: Callable[[Path, trustme.CA], dict[str, str]]
) -> None:
    settings = make(tmp_path, trustme.CA())
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in {**settings, "security.protocol": "SSL"}.items()))
    with MockKafka(security="ssl", configs={**settings, "ssl.client.auth": "required"}) as kafka:
        trusting = read_access(str(file)).context()
        assert trusting is not None
        assert ask(kafka, trusting)
        assert {row.principal.partition(",")[0] for row in kafka.trace.events("authentication")} == {"User:CN=both"}
    assert "PRIVATE KEY" not in repr(tls_of(settings, None))


@pytest.mark.parametrize(
    ("store", "changed", "says"),
    [
        ("keystore", {"ssl.keystore.password": "wr0ng"}, "key.p12 is not a PKCS12 store that ssl.keystore.password opens"),
        (
            "truststore",
            {"ssl.truststore.password": "wr0ng"},
            "trust.p12 is not a PKCS12 store that ssl.truststore.password opens",
        ),
        ("keystore", {"ssl.keystore.location": "trust.p12"}, "trust.p12 has no key with a certificate"),
        ("keystore", {"ssl.keystore.location": "ca.pem"}, "ca.pem is not a PKCS12 store"),
        ("truststore", {"ssl.truststore.location": "none.p12"}, "none.p12: No such file"),
    ],
)
def test_stores_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, changed: dict[str, str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = made_stores(tmp_path, trustme.CA()) | changed
    with pytest.raises(TlsError, match=f"ssl.{store}.location: .*{says}") as refused:
        tls_of(settings, None)
    assert "s3cret" not in str(refused.value)
    assert "wr0ng" not in str(refused.value)
    lines = [f"{name}={value}" for name, value in settings.items()]
    Path("client.properties").write_text("\n".join(["security.protocol=SSL", *lines]))
    with pytest.raises(BadConfig, match=f"ssl.{store}.location: .*{says}"):
        read_access("client.properties")


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"), ("RULE:^CN=(.*?),.*$/$1/", "CN=Bob,O=x", "Bob"),
        ("RULE:^CN=(.*?),.*$/$1/L", "CN=Bob,O=x", "bob"), ("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/U", "CN=a,OU=b", "A@B"),
        ("RULE:^O=.*$/x/, RULE:^CN=(.*)$/$1@$4/", "CN=a", "a@$4"), ("RULE:^O=.*$/x/,DEFAULT", "CN=a", "CN=a"),
        ("RULE:^O=.*$/x/", "CN=a", None),
    ],
)  # fmt: skip
def test_principal_mapping_rules(rules: str, name: str, expected: str | None) -> None:
    assert PrincipalRules(rules).name(name) == expected


def test_a_rule_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="is not RULE:pattern/replacement"):
        PrincipalRules("RULE:^CN=(.*)$")


def attribute(identifier: str, value: str, kind: _ASN1Type | None = None) -> x509.NameAttribute:
    """Returns an attribute of an X.509 name. `kind` is the ASN.1 string type of the value. The default is the attribute's usual
    type."""
    return x509.NameAttribute(x509.ObjectIdentifier(identifier), value, kind, _validate=kind is None)


NAMES: dict[str, list[list[x509.NameAttribute]]] = {
    r"C=DE,O=Tea\, Ltd,CN=alice": [
        [attribute("2.5.4.3", "alice")], [attribute("2.5.4.10", "Tea, Ltd")], [attribute("2.5.4.6", "DE")],
    ],
    r"CN=a\+b+UID=7": [[attribute("2.5.4.3", "a+b"), attribute("0.9.2342.19200300.100.1.1", "7")]],
    "CN=alice,2.5.4.12=#0c024472,2.5.4.5=#130431323334": [
        [attribute("2.5.4.5", "1234")], [attribute("2.5.4.12", "Dr")], [attribute("2.5.4.3", "alice")],
    ],
    "1.2.840.113549.1.9.1=#1603614062": [[attribute("1.2.840.113549.1.9.1", "a@b")]],
    "DC=example,STREET=Rue 1,L=München,ST=Bavaria": [
        [attribute("2.5.4.8", "Bavaria")], [attribute("2.5.4.7", "München")], [attribute("2.5.4.9", "Rue 1")],
        [attribute("0.9.2342.19200300.100.1.25", "example")],
    ],
    "2.5.4.4=#0c03496365,2.5.4.42=#0c02416c": [[attribute("2.5.4.42", "Al")], [attribute("2.5.4.4", "Ice")]],
    "1.2.3.4=#0c036f6464": [[attribute("1.2.3.4", "odd")]],
    "CN=\\ lead and trail\\ ": [[attribute("2.5.4.3", " lead and trail ")]],
    r"CN=\#a\=b\<c\>\;\"\\": [[attribute("2.5.4.3", '#a=b<c>;"\\')]],
    "CN=a\nb": [[attribute("2.5.4.3", "a\nb")]],
    "CN=teletex": [[attribute("2.5.4.3", "teletex", _ASN1Type.T61String)]],
    f"CN=#1c08{'00000075'}{'0000006e'}": [[attribute("2.5.4.3", "un", _ASN1Type.UniversalString)]],
    f"2.5.4.5=#0c81c8{'78' * 200}": [[attribute("2.5.4.5", "x" * 200, _ASN1Type.UTF8String)]],
    "CN=c+2.5.4.5=#130131": [[attribute("2.5.4.3", "c"), attribute("2.5.4.5", "1")]],
    "": [],
}  # fmt: skip
"""Subjects of certificates. The key is the text that X500Principal.getName of Java 17 returned for the subject."""


@pytest.mark.parametrize("expected", NAMES)
def test_a_distinguished_name_is_written_as_java_writes_it(expected: str) -> None:
    subject = x509.Name([x509.RelativeDistinguishedName(part) for part in NAMES[expected]])
    key = ec.generate_private_key(ec.SECP256R1())
    until = datetime(2040, 1, 1, tzinfo=UTC)
    certificate = x509.CertificateBuilder(x509.Name([]), subject, key.public_key(), 1, until, until).sign(key, hashes.SHA256())
    assert distinguished_name(certificate.public_bytes(serialization.Encoding.DER)) == expected


def test_serve_makes_certificates_says_where_and_removes_them_at_the_end() -> None:
    arguments = ["--listener", "SSL=SSL://127.0.0.1:0", "--tls", "auto"]
    process = subprocess.Popen([*COMMAND, "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        where = process.stdout.readline().removeprefix("certificate authority in ").strip()
        port = int(re.findall(r":(\d+) \(node 1, SSL\)", process.stdout.readline())[0])
        trusting = ssl.create_default_context(cafile=where)
        with (
            socket.create_connection(("127.0.0.1", port), 5) as plain,
            trusting.wrap_socket(plain, server_hostname="localhost"),
        ):
            pass
        process.terminate()
        process.wait(10)
        assert not Path(where).parent.exists()
    finally:
        process.kill()
        process.communicate()


def test_serve_refuses_tls_without_a_certificate() -> None:
    done = subprocess.run(
        [*COMMAND, "serve", "--listener", "SSL=SSL://127.0.0.1:0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "the listener SSL speaks TLS and needs a certificate (--tls-cert, --tls auto)" in done.stderr
