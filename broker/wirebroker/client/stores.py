"""Converts Java's key and trust stores in the formats PKCS12 and JKS to PEM.

Like Java, this module recognises the format from the file's contents, even if the setting `ssl.*.type` names the other format
(`keystore.type.compat`).
"""

from __future__ import annotations

import ssl
import tempfile
from base64 import encodebytes
from collections.abc import Mapping
from pathlib import Path

from kafkawire.extras import how_to_install
from wirebroker.client.jks import MAGIC, read_jks

JCEKS = b"\xce\xce\xce\xce"
"""The first bytes of a JCEKS store, another format of Java."""
TO_PKCS12 = "keytool -importkeystore -srckeystore {} -destkeystore store.p12 -deststoretype PKCS12"
TO_PEM = {
    "keystore": f"`{TO_PKCS12}` and `openssl pkcs12 -in store.p12 -nodes -out server.pem`",
    "truststore": "`keytool -list -rfc -keystore {} > ca.pem`",
}
"""The commands that convert a store to PEM."""


class BadStore(ValueError):
    """Raised if a store cannot be used. The message names the store, the reason and the remedy, but not the password."""


def pem_of(store: str, settings: Mapping[str, str]) -> str:
    """Convert the `keystore` or `truststore` that the settings name to PEM. Returns "" if the store's type is PEM already.

    The PEM text has the certificates, and for a keystore the key before them, without a password. Raises BadStore if the file
    cannot be read, has another format, or lacks the key or certificates for which the store is used.
    """
    location, password = settings[f"ssl.{store}.location"], settings.get(f"ssl.{store}.password", "")
    if settings.get(f"ssl.{store}.type", "JKS") == "PEM":
        return ""
    setting = f"ssl.{store}.location: {location}"
    advice = f"run {TO_PEM[store].format(location)}, name that file, and set ssl.{store}.type=PEM"
    try:
        data = Path(location).read_bytes()
    except OSError as refused:
        raise BadStore(f"{setting}: {refused.strerror}") from None
    if data.startswith(JCEKS):
        raise BadStore(f"{setting} is a Java store in the format JCEKS, and wirebroker reads PEM, PKCS12 and JKS; {advice}")
    if data.startswith(MAGIC):
        return _of_jks(data, store, settings)
    try:
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise BadStore(f"{setting}: to read PKCS12, {how_to_install('tls')}; or {advice}") from None
    try:
        found = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError:
        raise BadStore(f"{setting} is not a PKCS12 store that ssl.{store}.password opens") from None
    held = [each.certificate for each in (found.cert, *found.additional_certs) if each is not None]
    if not held or (store == "keystore" and found.key is None):
        raise BadStore(f"{setting} has no {'key with a certificate' if store == 'keystore' else 'certificate'}")
    parts = [certificate.public_bytes(form.Encoding.PEM) for certificate in held]
    if store == "keystore" and found.key is not None:
        parts.insert(0, found.key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    return b"".join(parts).decode("ascii")


def _of_jks(data: bytes, store: str, settings: Mapping[str, str]) -> str:
    setting, password = f"ssl.{store}.location: {settings[f'ssl.{store}.location']}", settings.get(f"ssl.{store}.password", "")
    try:
        found = read_jks(data, password, settings.get("ssl.key.password", password))
    except ValueError as wrong:
        raise BadStore(f"{setting} is not a JKS store that ssl.{store}.password opens: {wrong}") from None
    if not found.certificates or (store == "keystore" and not found.key):
        raise BadStore(f"{setting} has no {'key with a certificate' if store == 'keystore' else 'certificate'}")
    key = f"-----BEGIN PRIVATE KEY-----\n{encodebytes(found.key).decode()}-----END PRIVATE KEY-----\n"
    return key * (store == "keystore") + "".join(map(ssl.DER_cert_to_PEM_cert, found.certificates))


def load_key(context: ssl.SSLContext, certificate: str, key: str | None = None, password: str = "") -> None:
    """Give a context a key and its certificates from PEM files. Raises ssl.SSLError, BadStore, OSError.

    If the key's password is missing, OpenSSL would ask for it on the terminal. This function refuses the key instead.
    """

    def known() -> str:
        if not password:
            raise BadStore(
                "the key is encrypted, and no password is given. Set ssl.key.password if Kafka's settings name the key; else "
                "write the key without its password (`openssl pkey -in FILE -out key.pem`) and name that file"
            )
        return password

    context.load_cert_chain(certificate, key, known)


def load_identity(context: ssl.SSLContext, pem: str, password: str = "") -> None:
    """Give a context a key and its certificates. Raises ssl.SSLError, BadStore."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # Python's ssl reads keys only from files
        file.write(pem)
        file.flush()
        load_key(context, file.name, password=password)
