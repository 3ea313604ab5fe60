"""The forms in which people have bytes: binary, hex, base64, a dump of xxd or hexdump, a literal of Python."""

from __future__ import annotations

import ast
import base64
import binascii
import re
from collections.abc import Callable

_DUMP = re.compile(r"(?:0x)?[0-9a-f]{4,16}(?:(?::\s*|\s{2,})((?:[0-9a-f]{2,4}\s?)+(?:\s|$).*))?", re.IGNORECASE)
"""A line of xxd, of `hexdump -C` or of Wireshark: the position, the bytes, and perhaps the characters."""
_HEX = re.compile(r"(?:[0-9a-f]{2})*", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_BETWEEN = re.compile(r"\\x|0x|[\s:,]")
"""The separators that people write between bytes in hex."""
_WIDTH = 16
"""Bytes of a line of a dump."""


class UnknownForm(ValueError):
    """Raised for a text in another form; the message is a sentence."""


def read_bytes(data: bytes, form: str | None = None) -> bytes:
    """The bytes of a text or a file in a given form; without a form, the form is recognised. Raises UnknownForm."""
    if form == "binary":
        return data
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        text = "\0"
    if form is None:
        if any(ord(letter) < 32 and not letter.isspace() for letter in text):
            return data
        form = recognise(text)
    return READERS[form](text)


def recognise(text: str) -> str:
    """The form of a text. Raises UnknownForm."""
    if text.startswith(("b'", 'b"', "bytearray(")):
        return "python"
    rows = [line.strip() for line in text.splitlines() if line.strip() not in ("", "*")]
    if rows and " " in rows[0] and all(map(_DUMP.fullmatch, rows)):
        return "xxd"
    if _HEX.fullmatch(_BETWEEN.sub("", text)):
        return "hex"
    if _BASE64.fullmatch("".join(text.split())):
        return "base64"
    raise UnknownForm(f"this is not hex, base64, output of xxd, or b'…': {text[:40]!r}")


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(_BETWEEN.sub("", text))
    except ValueError:
        raise UnknownForm(f"this is not hex, two digits for each byte: {text[:40]!r}") from None


def _from_base64(text: str) -> bytes:
    plain = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error as wrong:
        raise UnknownForm(f"this is not base64 ({wrong})") from None


def _from_dump(text: str) -> bytes:
    found = bytearray()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if line.strip() == "*":
            raise UnknownForm(f"line {number}: the dump leaves out lines that repeat; make it with `xxd`, or `hexdump -vC`")
        match = _DUMP.fullmatch(line.strip())
        if match is None:
            raise UnknownForm(f"line {number}: this is not a line of a dump: {line[:40]!r}")
        # The characters stand after two spaces or a bar. hexdump also has two spaces in the middle.
        columns = re.split(r"\s\|", match[1] or "")[0]
        pairs = re.match(r"(?:[0-9a-f]{2}){1,2}(?:\s{1,2}(?:[0-9a-f]{2}){1,2}(?=\s|$))*", columns, re.IGNORECASE)
        found += bytes.fromhex("".join(pairs[0].split()) if pairs else "")[:_WIDTH]
    return bytes(found)


def _from_python(text: str) -> bytes:
    try:
        value = ast.literal_eval(text.removeprefix("bytearray(").removesuffix(")") if text.startswith("bytearray(") else text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as wrong:
        raise UnknownForm(f"this is not a literal of Python: {getattr(wrong, 'msg', wrong)}") from None
    if not isinstance(value, bytes):
        raise UnknownForm("this literal of Python is not one of bytes")
    return value


READERS: dict[str, Callable[[str], bytes]] = {
    "hex": _from_hex, "base64": _from_base64, "xxd": _from_dump, "python": _from_python,
}  # fmt: skip


def written(data: bytes, form: str) -> str:
    """The bytes as a text of this form (not binary), without the end of its last line."""
    if form == "base64":
        return base64.b64encode(data).decode()
    if form == "python":
        return repr(data)
    return _dump(data) if form == "xxd" else data.hex()


def _dump(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), _WIDTH):
        row = data[at : at + _WIDTH]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}: {row.hex(' ', -2):<39}  {characters}")
    return "\n".join(lines)
