"""Java's keystores (JKS). keytool of JDK 17 made both stores. One store has a key with its own password, and the other store
has the key's certificate.
"""

from __future__ import annotations

import ssl
from base64 import b64decode
from contextlib import closing
from pathlib import Path

import pytest

from kafkawire.messages.api_versions import ApiVersionsRequest
from wirebroker import MockKafka
from wirebroker.client.settings import read_access
from wirebroker.client.stores import BadStore, pem_of
from wirebroker.client.wire import Connection, address_of

KEY = b64decode(
    "/u3+7QAAAAIAAAABAAAAAQAGYnJva2VyAAABogn9m14AAAB/MH0wDgYKKwYBBAEqAhEBAQUABGtCYKve5C/krlRGC74kBO6LuBwT"
    "FVaS3qXCaK1YCmCpOcRcZEf9gnICGEQ4+QnIpddoXdB+AfrrR7u50KpJAsgPyWGixlj7blt+QZiwb8fds4KLFVB3ZHctTyiquxQg"
    "E4NFCEmD+5hqxAxmEwAAAAEABVguNTA5AAABYTCCAV0wggEDoAMCAQICCE/vbbRL/qwkMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMT"
    "CWxvY2FsaG9zdDAgFw0yNjExMjMxOTU5MDRaGA8yMTI2MTAzMDE5NTkwNFowFDESMBAGA1UEAxMJbG9jYWxob3N0MFkwEwYHKoZI"
    "zj0CAQYIKoZIzj0DAQcDQgAE+QCiJxbb5B7N3G+XokiSPaGjJXTeZ6XL1bctmmcNqltUMpDwg7FYue6RteTeZOXMUXKTFYcg+0vv"
    "tn0KSy0kWKM9MDswHQYDVR0OBBYEFIJPwEf8kkJFGTx7p0H//HaopldSMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAKBggq"
    "hkjOPQQDAgNIADBFAiEA9UNVrlrZrCI/npyk6Ic1af9+LYMBTifPzupf0SSKKvYCIEQ9nNao7LWcXSRbQb/xztnl8M5W6fTp9O6o"
    "Unyxrtf5XWBVPcFUKMnlCuSr5il7Yv7YYhY="
)
TRUST = b64decode(
    "/u3+7QAAAAIAAAABAAAAAgACY2EAAAGiCf2gLQAFWC41MDkAAAFhMIIBXTCCAQOgAwIBAgIIT+9ttEv+rCQwCgYIKoZIzj0EAwIw"
    "FDESMBAGA1UEAxMJbG9jYWxob3N0MCAXDTI2MTEyMzE5NTkwNFoYDzIxMjYxMDMwMTk1OTA0WjAUMRIwEAYDVQQDEwlsb2NhbGhv"
    "c3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAT5AKInFtvkHs3cb5eiSJI9oaMldN5npcvVty2aZw2qW1QykPCDsVi57pG15N5k"
    "5cxRcpMVhyD7S++2fQpLLSRYoz0wOzAdBgNVHQ4EFgQUgk/AR/ySQkUZPHunQf/8dqimV1IwGgYDVR0RBBMwEYIJbG9jYWxob3N0"
    "hwR/AAABMAoGCCqGSM49BAMCA0gAMEUCIQD1Q1WuWtmsIj+enKTohzVp/34tgwFOJ8/O6l/RJIoq9gIgRD2c1qjstZxdJFtBv/HO"
    "2eXwzlbp9On07qhSfLGu1/mV/+iGvk2HSppWbqFtvgYNxYu3ag=="
)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "key.jks").write_bytes(KEY)
    (tmp_path / "trust.jks").write_bytes(TRUST)
    return {
        "ssl.keystore.location": str(tmp_path / "key.jks"), "ssl.keystore.password": "changeit", "ssl.key.password": "another",
        "ssl.truststore.location": str(tmp_path / "trust.jks"), "ssl.truststore.password": "changeit",
    }  # fmt: skip


def test_stores_of_java_serve_a_listener_and_a_client(settings: dict[str, str], tmp_path: Path) -> None:
    trust = "".join(f"{name}={value}\n" for name, value in settings.items() if "truststore" in name)
    (tmp_path / "client.properties").write_text(f"security.protocol=SSL\n{trust}")
    with MockKafka(security="ssl", configs=settings) as kafka:
        context = read_access(str(tmp_path / "client.properties")).context()
        connection = Connection(address_of(kafka.bootstrap_servers), 5, tls=context)
        assert connection.request(ApiVersionsRequest(), 0).error_code == 0
        connection.close()


@pytest.mark.parametrize(
    ("store", "change", "words"),
    [
        ("keystore", {"ssl.keystore.password": "s3cret"}, "the password is wrong, or the file is damaged"),
        ("keystore", {"ssl.key.password": "s3cret"}, "the password of the key is wrong"),
        ("truststore", {"ssl.truststore.password": "s3cret"}, "the password is wrong, or the file is damaged"),
    ],
)
def test_a_wrong_password_is_said_and_not_shown(
    store: str, change: dict[str, str], words: str, settings: dict[str, str]
) -> None:
    with pytest.raises(BadStore, match=f"is not a JKS store that ssl.{store}.password opens: {words}") as refused:
        pem_of(store, settings | change)
    assert "s3cret" not in str(refused.value)


def test_a_store_of_certificates_has_no_key(settings: dict[str, str]) -> None:
    with pytest.raises(BadStore, match="trust.jks has no key with a certificate"):
        pem_of("keystore", settings | {"ssl.keystore.location": settings["ssl.truststore.location"]})


@pytest.mark.parametrize("whole", [KEY, TRUST])
def test_damage_is_said_in_a_sentence(whole: bytes, settings: dict[str, str]) -> None:
    """As Java does, wirebroker checks a store's digest only if it has the store's password."""
    path = Path(settings["ssl.truststore.location"])
    sentences = []
    for size in range(4, len(whole)):
        for data in (whole[:size], whole[:size] + b"\xff" + whole[size + 1 :]):
            path.write_bytes(data)
            try:  # a store can still be read if the damaged byte is, for example, in a date
                assert pem_of("truststore", {"ssl.truststore.location": str(path)}).startswith("-----BEGIN CERTIFICATE-----")
            except BadStore as refused:
                sentences.append(str(refused))
    assert all(sentence.startswith(f"ssl.truststore.location: {path} ") for sentence in sentences)
    assert len(sentences) > len(whole) - 24, "each store that is cut before its digest is refused"


def test_the_key_of_a_pem_file_may_have_a_password(tmp_path: Path, settings: dict[str, str]) -> None:
    from cryptography.hazmat.primitives import serialization as form

    pem = pem_of("keystore", settings)
    key = form.load_pem_private_key(pem.encode(), None)
    lock = form.BestAvailableEncryption(b"another")
    locked = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, lock).decode()
    (tmp_path / "key.pem").write_text(locked + pem[pem.index("-----BEGIN CERT") :])
    made = {"ssl.keystore.location": str(tmp_path / "key.pem"), "ssl.keystore.type": "PEM", "ssl.key.password": "another"}
    with MockKafka(security="ssl", configs=made) as kafka:
        context = ssl.create_default_context(cadata=pem_of("truststore", settings))
        with closing(Connection(address_of(kafka.bootstrap_servers), 5, tls=context)) as connection:
            assert connection.request(ApiVersionsRequest(), 0).error_code == 0
