"""The forms in which bytes are read and written: binary, hex, base64, the output of xxd or hexdump, and a Python literal."""

from __future__ import annotations

import ast
import base64
import binascii
import re
from collections.abc import Callable

_DUMP = re.compile(r"(?:0x)?[0-9a-f]{4,16}(?:(?::\s*|\s{2,})((?:[0-9a-f]{2,4}\s?)+(?:\s|$).*))?", re.IGNORECASE)
"""A line of a hex dump from xxd, `hexdump -C` or Wireshark: the position, the bytes and, in some dumps, the characters."""
_HEX = re.compile(r"(?:[0-9a-f]{2})*", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_BETWEEN = re.compile(r"\\x|0x|[\s:,]")
"""The separators and prefixes that are allowed between bytes in hex."""
_WIDTH = 16
"""A line of a dump has this many bytes."""


class UnknownForm(ValueError):
    """Raised if a text is in none of the forms. The error's message can be shown to the user."""


def read_bytes(data: bytes, form: str | None = None) -> bytes:
    """Returns the bytes that `data` stands for in the form `form`. If `form` is None, it is recognised from the data. Raises
    UnknownForm."""
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
    """Returns the name of a text's form. Raises UnknownForm."""
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
        # In a line, two spaces or a bar come between the bytes and the characters. hexdump also has two spaces in the middle of
        # the bytes.
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
        raise UnknownForm("this Python literal is not a bytes literal")
    return value


READERS: dict[str, Callable[[str], bytes]] = {
    "hex": _from_hex, "base64": _from_base64, "xxd": _from_dump, "python": _from_python,
}  # fmt: skip


def written(data: bytes, form: str) -> str:
    """Returns the bytes as text in the form `form`, without a final newline. The form must not be binary."""
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
