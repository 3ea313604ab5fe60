"""wirebroker understands client properties files as Kafka's clients do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from client_forms import LOGINS, USERS, certificates, material, one_line
from wirebroker import MockKafka
from wirebroker.client.brokers import Brokers
from wirebroker.client.settings import BadConfig, read_access


@pytest.fixture(scope="module")
def with_sasl() -> Iterator[str]:
    with MockKafka(security="sasl_plaintext", users=USERS) as kafka:
        yield kafka.bootstrap_servers


def check(text: str, reaches: bool, address: str, file: Path) -> None:
    """Checks that a client with these properties reaches the broker, or that the properties are refused with a sentence that
    names the file and shows no password.
    """
    file.write_bytes(text.encode("latin-1"))
    if reaches:
        Brokers(read_access(str(file)), 10).connect(address).close()
        return
    with pytest.raises(BadConfig, match=f"^--command-config {file}: ") as refused:
        read_access(str(file))
    assert not any(secret in str(refused.value) for secret in ("tea", "s3cret", "MII"))


@pytest.mark.parametrize("form", LOGINS)
def test_a_login_is_understood_as_kafkas_clients_understand_it(form: str, with_sasl: str, tmp_path: Path) -> None:
    text, reaches = LOGINS[form]
    check(text, reaches, with_sasl, tmp_path / "client.properties")


def test_certificates_are_understood_as_kafkas_clients_understand_them(tmp_path: Path) -> None:
    forms = certificates(material(tmp_path, trustme.CA()))
    configs = {
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "both.pem"), "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"), "ssl.client.auth": "required",
    }  # fmt: skip
    wrong = []
    with MockKafka(security="ssl", configs=configs) as kafka:
        for form, (text, reaches) in forms.items():
            try:
                check(text, reaches, kafka.bootstrap_servers, tmp_path / "client.properties")
            except (Exception, pytest.fail.Exception) as other:
                wrong.append(f"{form}: {other!r}")
    assert wrong == []


def test_a_listener_takes_its_certificate_in_one_line(tmp_path: Path) -> None:
    made = material(tmp_path, trustme.CA())
    configs = {
        "ssl.keystore.type": "PEM", "ssl.keystore.key": one_line(made.locked, " "), "ssl.key.password": "s3cret",
        "ssl.keystore.certificate.chain": one_line(made.chain, " "), "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": one_line(made.trusted, " "), "ssl.client.auth": "required",
    }  # fmt: skip
    file = tmp_path / "client.properties"
    text, _ = certificates(made)["files"]
    file.write_text(text + "ssl.endpoint.identification.algorithm=\n")
    with MockKafka(security="ssl", configs=configs) as kafka:
        Brokers(read_access(str(file)), 10).connect(kafka.bootstrap_servers).close()
