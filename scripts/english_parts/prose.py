"""The sentences of a folder: docstrings, comments, messages and documentation, each with its file and line."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

UNREAD = (
    "kafkawire/messages/",
    "kafkawire/coordinator_records/",
    "docs/how-to/gallery/",
    "english_parts/phrases.py",
    "tests/test_english.py",
)
"""Generated files, and files that quote the words."""
PROSE = (".py", ".md", ".toml")
SCRIPT = b"#!"
SHORTEST = 4
"""A text with fewer words than this does not count as a sentence: it may be a name or a setting."""


class Sentence(NamedTuple):
    """One sentence, or one message, and the line on which its paragraph begins."""

    path: Path
    line: int
    text: str


def files(folder: Path) -> Iterator[Path]:
    """Yields the files in a folder that hold prose, in order. For a file, yields the file itself."""
    found = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    for path in found:
        if not path.is_file() or "__pycache__" in path.parts or any(part in path.as_posix() for part in UNREAD):
            continue
        if path.suffix in PROSE or (not path.suffix and path.read_bytes()[:2] == SCRIPT):
            yield path


def sentences(path: Path) -> Iterator[Sentence]:
    """Yields the sentences of a file."""
    text = path.read_text(encoding="utf-8")
    for line, paragraph in _paragraphs(path, text):
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`*({])", " ".join(paragraph.split())):
            if len(re.findall(r"(?<!\S)[(`*\"]*[A-Za-z]+(?=[\s,.;:!?)`*\"]|$)", sentence)) >= SHORTEST:
                yield Sentence(path, line, sentence)


def _paragraphs(path: Path, text: str) -> Iterator[tuple[int, str]]:
    if path.suffix == ".md":
        return _of_markdown(text)
    if path.suffix == ".toml":
        return _of_toml(text)
    if path.suffix == ".py" or "python" in text.partition("\n")[0]:
        return _of_python(text)
    return _of_comments((number, line) for number, line in enumerate(text.splitlines(), 1))


def _of_python(text: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(text)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in inside:
            yield node.lineno, _filled(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield from _split(node.lineno, node.value)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield from _of_comments((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


def _filled(node: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def _split(line: int, text: str) -> Iterator[tuple[int, str]]:
    """Yields the paragraphs and list items of a text, each with its line, without indented examples. The text begins on
    `line`."""
    paragraph: list[str] = []
    for number, shown in enumerate([*text.splitlines(), ""]):
        if not shown.strip() or re.match(r"\s*([-*|#]|\d+\.)\s?", shown):
            if paragraph:
                yield line + number - len(paragraph), "\n".join(paragraph)
            paragraph = []
        if shown.strip().startswith("|"):
            yield from ((line + number, cell) for cell in shown.strip().strip("|").split("|"))
        elif shown.strip():
            paragraph.append(re.sub(r"^\s*([-*#]+|\d+\.)\s", "", shown))


def _of_markdown(text: str) -> Iterator[tuple[int, str]]:
    blank = re.sub(r"^```.*?^```$|<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    return _split(1, blank)


def _of_toml(text: str) -> Iterator[tuple[int, str]]:
    yield from _of_comments((number, line) for number, line in enumerate(text.splitlines(), 1))
    for match in re.finditer(r'"""(.*?)"""|"((?:[^"\\\n]|\\.)*)"', text, re.DOTALL):
        yield text[: match.start()].count("\n") + 1, match[1] or match[2] or ""


def _of_comments(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yields the comments; comments on successive lines are one paragraph."""
    paragraph: list[str] = []
    last = 0
    for number, line in lines:
        comment = re.match(r"\s*#+:?\s?(?!!)(.*)", line)
        if paragraph and (comment is None or number != last + 1):
            yield last - len(paragraph) + 1, "\n".join(paragraph)
            paragraph = []
        if comment is not None:
            paragraph.append(comment[1])
            last = number
    if paragraph:
        yield last - len(paragraph) + 1, "\n".join(paragraph)
