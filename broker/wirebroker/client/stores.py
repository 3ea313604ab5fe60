"""Reads the key and trust stores in Kafka's settings. Stores in PEM, PKCS12 and JKS are converted to the PEM that OpenSSL
reads.

Like Java, this module recognises PKCS12 and JKS from the file's contents, even if the setting `ssl.*.type` names the other of
these two formats (`keystore.type.compat`).
"""

from __future__ import annotations

import re
import ssl
import tempfile
from base64 import encodebytes
from collections.abc import Mapping
from pathlib import Path

from kafkawire.extras import how_to_install
from wirebroker.client.jks import MAGIC, read_jks

PEM = "PEM"
INLINE = {"keystore": ("key", "certificate.chain"), "truststore": ("certificates",)}
"""The settings that contain a store in PEM instead of a file name."""
_ENTRY = (
    r"-+BEGIN(\s*[^\r\n]*{words}[^-]*)-+\s+(?:\s*[^\r\n]*:[^\r\n]*[\r\n]+)*([a-zA-Z0-9/+=\s]*)"
    r"-+END\s*[^\r\n]*{words}[^-]*-+\s+"
)
"""The pattern of an entry that Kafka finds in a PEM text (PemParser)."""
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
    """Returns the contents of the `keystore` or `truststore` in these settings as PEM text, which OpenSSL reads. Returns "" if
    the settings name no store.

    The PEM text of a truststore has the certificates. The PEM text of a keystore has the key, and then the certificates. The
    key of a Java store is returned without a password. Raises BadStore if the settings contradict each other, or if a file
    cannot be read, has another format, or lacks the necessary key or certificates (DefaultSslEngineFactory).
    """
    kind, location, password = (settings.get(f"ssl.{store}.{end}") for end in ("type", "location", "password"))
    named = [f"ssl.{store}.{end}" for end in INLINE[store]]
    given = [name for name in named if name in settings]
    if given and location is not None:
        raise BadStore(f"ssl.{store}.location and {given[0]} exclude each other")
    if given and kind != PEM:
        raise BadStore(f"ssl.{store}.type is {kind or 'JKS'}, but {given[0]} needs {PEM}")
    if given and (missing := [name for name in named if name not in settings]):
        raise BadStore(f"{given[0]} needs {missing[0]}")
    if not given and location is None:
        if password is not None:
            raise BadStore(f"ssl.{store}.password is given, but ssl.{store}.location is not")
        return ""
    if kind != PEM:
        return _of_java(store, settings)
    if password is not None:
        raise BadStore(f"ssl.{store}.password is not for a store in PEM; remove it (the key's password is ssl.key.password)")
    return _of_pem(store, settings, given)


def _of_pem(store: str, settings: Mapping[str, str], given: list[str]) -> str:
    """Returns the entries of a store in PEM, in the form that OpenSSL reads. As in Kafka, text around the entries is ignored,
    and blanks may take the place of line ends."""
    location = settings.get(f"ssl.{store}.location", "")
    if given:
        place, texts = given[0], [settings[name] for name in given]
    else:
        place = f"ssl.{store}.location: {location}"
        try:
            texts = [Path(location).read_text(encoding="utf-8", errors="replace")]
        except OSError as refused:
            raise BadStore(f"{place}: {refused.strerror}") from None
    certificates = _entries("CERTIFICATE", texts[-1], place)
    keys = _entries("PRIVATE KEY", texts[0], place) if store == "keystore" else []
    if len(keys) > 1:
        raise BadStore(f"{place}: certificate and key cannot be used (there are {len(keys)} keys)")
    if keys and "ENCRYPTED" not in keys[0] and settings.get("ssl.key.password") is not None:
        raise BadStore(f"{place}: the key is not encrypted, so Kafka refuses ssl.key.password; remove it")
    return "".join(keys + certificates)


def _entries(name: str, text: str, place: str) -> list[str]:
    """Returns the entries of the kind `name` in a PEM text, in the form that OpenSSL reads. Raises BadStore if the text has no
    such entry."""
    found = []
    pattern = _ENTRY.format(words=name.replace(" ", r"\s+"))
    for entry in re.finditer(pattern, text + "\n", re.ASCII):
        label = "ENCRYPTED PRIVATE KEY" if name == "PRIVATE KEY" and "ENCRYPTED" in entry[1] else name
        body = re.sub(r"\s", "", entry[2])
        lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
        found.append(f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
    if not found:
        raise BadStore(f"{place}: certificate and key cannot be used (there is no {name} in PEM form)")
    return found


def _of_java(store: str, settings: Mapping[str, str]) -> str:
    """Converts a store in PKCS12 or JKS."""
    location, password = settings[f"ssl.{store}.location"], settings.get(f"ssl.{store}.password")
    setting = f"ssl.{store}.location: {location}"
    advice = f"run {TO_PEM[store].format(location)}, name that file, and set ssl.{store}.type=PEM"
    try:
        data = Path(location).read_bytes()
    except OSError as refused:
        raise BadStore(f"{setting}: {refused.strerror}") from None
    if data.startswith(JCEKS):
        raise BadStore(f"{setting} is a Java store in the format JCEKS, and wirebroker reads PEM, PKCS12 and JKS; {advice}")
    if store == "keystore" and password is None:
        raise BadStore(f"{setting} needs ssl.keystore.password; if the file is PEM, set ssl.keystore.type=PEM")
    if data.startswith(MAGIC):
        return _of_jks(data, store, settings)
    try:
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise BadStore(f"{setting}: to read PKCS12, {how_to_install('tls')}; or {advice}") from None
    try:
        found = pkcs12.load_pkcs12(data, (password or "").encode() or None)
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

    If the key's password is missing, this function refuses the key. (OpenSSL would ask for the password on the terminal.)
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
