"""TLS of listeners: reads certificates from files or creates them, and describes the reasons of failed handshakes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kafkawire.extras import how_to_install
from wirebroker.client.stores import INLINE, BadStore, load_identity, load_key, pem_of
from wirebroker.core.setting_definitions import PER_LISTENER
from wirebroker.security.principals import distinguished_name
from wirebroker.security.protocols import SecurityProtocol

if TYPE_CHECKING:
    from trustme import LeafCert

ClientAuth = Literal["none", "requested", "required"]
VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
CIPHERS, LEVEL = "ssl.cipher.suites", "@SECLEVEL="
WEAK = f"OpenSSL refuses signatures with SHA-1 or MD5, and Kafka allows SHA-1: {CIPHERS}={LEVEL}0 allows them"
CAUSES = {
    "HTTP_REQUEST": "the client speaks HTTP, and this listener speaks TLS",
    "WRONG_VERSION_NUMBER": "the client speaks plaintext, and this listener speaks TLS",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority of the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client reports that the broker's certificate has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the broker's certificate",
    "UNSUPPORTED_PROTOCOL": "the client offers only old versions of TLS",
    "CA_MD_TOO_WEAK": WEAK,
    "NO_SHARED_CIPHER": "client and broker have no cipher in common",
}
"""Explanations for some of the reasons that OpenSSL gives for a failed handshake."""
CA, SERVER, CLIENT, EXPIRED = "ca.pem", "server.pem", "client.pem", "expired.pem"
PAST = datetime(2020, 1, 1, tzinfo=UTC)


class TlsError(ValueError):
    """Raised if the certificates cannot be used. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS options of a listener: the broker's certificate with its key, and the authority whose client certificates the
    broker accepts. The files are PEM files or Java keystores."""

    certificate: str
    key: str | None = None
    client_ca: str | None = None
    """The file with the authority that signs clients' certificates."""
    client: ClientAuth = "none"
    expire: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    """A function that creates an expired copy of the certificate, with its key, and returns the path of the new file."""
    key_store: str = field(default="", repr=False)
    """The key and certificates as PEM, if `certificate` is a Java keystore."""
    trust_store: str = field(default="", repr=False)
    """The certificates as PEM, if `client_ca` is a Java truststore."""
    key_password: str = field(default="", repr=False)
    """The password of the key in a PEM file."""
    level: str = ""
    """OpenSSL's security level, such as `@SECLEVEL=0`, or "" for Python's default."""

    def context(self, protocol: SecurityProtocol) -> ssl.SSLContext:
        """Returns the SSL context of a listener. As in Kafka, an SSL listener requests client certificates and a SASL_SSL
        listener does not. Raises TlsError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.num_tickets = 1  # one session ticket, as in Java; with two, OpenSSL's default, each handshake would take longer
        try:
            if self.level:
                context.set_ciphers(f"DEFAULT:{self.level}")
            if self.key_store:
                load_identity(context, self.key_store, self.key_password)
            else:
                load_key(context, self.certificate, self.key, self.key_password)
            if protocol is SecurityProtocol.SSL and self.client != "none":
                if self.client_ca is None:
                    raise TlsError("client certificates need the authority that signed them (--tls-client-ca)")
                try:
                    context.load_verify_locations(None if self.trust_store else self.client_ca, cadata=self.trust_store or None)
                except ssl.SSLError as wrong:
                    raise TlsError(f"{self.client_ca}: this is not a certificate in PEM form ({wrong.reason})") from None
                context.verify_mode = VERIFY[self.client]
        except ssl.SSLError as wrong:
            why = CAUSES.get(wrong.reason, wrong.reason) or wrong
            raise TlsError(f"{self.certificate}: certificate and key cannot be used ({why})") from None
        except BadStore as wrong:
            raise TlsError(f"{self.key or self.certificate}: {wrong}") from None
        except OSError as missing:
            named = (each for each in (self.certificate, self.key, self.client_ca) if each and not Path(each).is_file())
            raise TlsError(f"{next(named, self.certificate)}: {missing.strerror or missing}") from None
        return context


def tls_of(settings: Mapping[str, str], given: Tls | None, listener: str = "") -> Tls | None:
    """Returns the TLS options that Kafka's ssl.* settings describe, or None if they name no certificate. Values in `given` have
    precedence. Raises TlsError.

    The settings of the listener (`listener.name.NAME.ssl.…`) have precedence over the settings of the broker.
    """
    prefix = f"{PER_LISTENER}{listener.lower()}."
    own = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    settings = {**settings, **own}
    client = settings.get("ssl.client.auth", "none")
    location, trusted = _place("keystore", settings), _place("truststore", settings)
    try:
        if given is None and location is not None:
            given = Tls(location, key_store=pem_of("keystore", settings), key_password=settings.get("ssl.key.password", ""))
        held = pem_of("truststore", settings) if trusted is not None else ""
    except BadStore as wrong:
        raise TlsError(str(wrong)) from None
    if given is not None and given.client_ca is None:
        given = replace(given, client_ca=trusted, trust_store=held)
    if given is not None and (level := settings.get(CIPHERS, "")).startswith(LEVEL):
        given = replace(given, level=level)
    if given is None or given.client != "none" or client not in VERIFY:
        return given
    return replace(given, client=client)  # type: ignore[arg-type]


def _place(store: str, settings: Mapping[str, str]) -> str | None:
    """Returns the path of a store's file, or the name of the setting that has the store's contents."""
    named = (f"ssl.{store}.{end}" for end in INLINE[store])
    return settings.get(f"ssl.{store}.location") or next((name for name in named if name in settings), None)


def make_certificates(folder: Path, hosts: list[str], client: str = "client") -> Tls:
    """Create a certificate authority, a certificate for these hosts, and a certificate for a client, and write them to a
    folder. Raises TlsError if trustme is not installed."""
    try:
        import trustme
    except ImportError:
        raise TlsError(f"to create certificates, {how_to_install('tls')}, or name files (--tls-cert, --tls-key)") from None
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / CA))
    _write(folder / SERVER, authority.issue_cert(*hosts))
    _write(folder / CLIENT, authority.issue_cert(f"{client}@example.org", common_name=client))

    def expire() -> str:
        _write(folder / EXPIRED, authority.issue_cert(*hosts, not_before=PAST, not_after=PAST + timedelta(days=1)))
        return str(folder / EXPIRED)

    return Tls(str(folder / SERVER), client_ca=str(folder / CA), expire=expire)


def _write(path: Path, issued: LeafCert) -> None:
    """Write the key and the certificates to a file. The key is in PKCS #8, because Java reads no other form."""
    from cryptography.hazmat.primitives import serialization as form

    key = form.load_pem_private_key(issued.private_key_pem.bytes(), None)
    text = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    path.write_bytes(text + b"".join(each.bytes() for each in issued.cert_chain_pems))


def cause_of(failure: Exception) -> str:
    """Returns the reason why a handshake failed, in words."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        weak = "too weak" in failure.verify_message
        return f"the client's certificate is refused: {WEAK if weak else failure.verify_message}"
    reason = getattr(failure, "reason", None) or str(failure)
    return CAUSES.get(reason, reason.replace("_", " ").lower())


def subject_of(transport: asyncio.BaseTransport) -> str:
    """Returns the distinguished name in the certificate of a client, or "" for a client without a certificate."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return distinguished_name(certificate) if certificate else ""
