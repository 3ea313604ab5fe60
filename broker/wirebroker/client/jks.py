"""Reads JKS, Java's own format of key and trust stores, like sun.security.provider.JavaKeyStore and KeyProtector."""

from __future__ import annotations

import hashlib
import hmac
import io
from typing import NamedTuple

MAGIC = b"\xfe\xed\xfe\xed"
_KEY, _CERTIFICATE = 1, 2
_DIGEST = 20
"""The size of a SHA-1 digest in bytes."""
_WHITENER = b"Mighty Aphrodite"


class Jks(NamedTuple):
    """The contents of a store in DER: the first key (PKCS #8) with its certificates.

    If the store has no key, the contents are all trusted certificates.
    """

    key: bytes
    certificates: list[bytes]


def read_jks(data: bytes, password: str, key_password: str) -> Jks:
    """Returns the contents of a store. As in Java, the store's digest is not checked if no password is given. Raises
    ValueError.
    """
    contents, digest = data[:-_DIGEST], data[-_DIGEST:]
    own = hashlib.sha1(_java(password) + _WHITENER + contents).digest()
    if password and not hmac.compare_digest(own, digest):
        raise ValueError("the password is wrong, or the file is damaged")
    reader = _Reader(contents[len(MAGIC) :])
    version, entries = reader.number(4), reader.number(4)
    trusted: list[bytes] = []
    for _ in range(entries):
        tag, _, _ = reader.number(4), reader.block(2), reader.take(8)
        if tag == _KEY:
            key = _opened(reader.block(4), key_password)
            return Jks(key, [reader.certificate(version) for _ in range(reader.number(4))])
        if tag != _CERTIFICATE:
            raise ValueError(f"it has an entry of the unknown kind {tag}")
        trusted.append(reader.certificate(version))
    return Jks(b"", trusted)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def take(self, size: int) -> bytes:
        if len(found := self._data.read(size)) < size:
            raise ValueError("the file ends too early")
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def block(self, size: int) -> bytes:
        """Reads a length of `size` bytes, and then returns as many of the following bytes as the length says."""
        return self.take(self.number(size))

    def der(self) -> bytes:
        """Returns the contents of the next ASN.1 value, without its tag and length."""
        _, size = self.number(1), self.number(1)
        return self.take(size if size < 128 else self.number(size & 127))

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.block(2)  # X.509
        return self.block(4)


def _java(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _opened(protected: bytes, password: str) -> bytes:
    """Decrypts the key in an EncryptedPrivateKeyInfo. Its data are a salt, the key XORed with a stream of digests, and a digest
    of the key."""
    info = _Reader(_Reader(protected).der())
    info.der()  # the algorithm
    octets, secret = info.der(), _java(password)
    digest, hidden, own = octets[:_DIGEST], octets[_DIGEST:-_DIGEST], octets[-_DIGEST:]
    stream = b""
    while len(stream) < len(hidden):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), own):
        raise ValueError("the password of the key is wrong")
    return key
