"""The repository is written in plain English: no folder uses the worst words more often than it may."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
try:
    from english_parts.folders import folders
    from english_parts.phrases import is_stilted, worst_of
    from english_parts.prose import files, sentences
finally:
    sys.path.pop(0)

MOST: dict[str, int] = {}
"""How many of the worst words a folder may still hold, none if it is not listed. Numbers here only go down."""

FOLDERS = folders(ROOT)


@pytest.mark.parametrize("name", FOLDERS)
def test_no_folder_uses_more_of_the_worst_words_than_it_may(name: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{sentence.line}: '{words}': {better}"
        for folder in FOLDERS[name]
        for path in files(folder)
        for sentence in sentences(path)
        for words, better in worst_of(sentence.text)
    ]
    if len(found) > MOST.get(name, 0):
        pytest.fail(f"{len(found)} found, {MOST.get(name, 0)} allowed\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The index is made anew.", "anew"),
        ("The last entry is none.", "is none"),
        ("A gap is said in the report.", "is said"),
        ("The batches behind the gap are refused.", "behind the gap"),
        ("What is left of it is read again.", "is left of"),
        ("Of a log only the end is read.", "Of a log only the"),
        ("The leader settles the transaction.", "settles"),
    ],
)
def test_a_sentence_with_one_of_the_worst_words_is_found(text: str, words: str) -> None:
    assert words in [found for found, _ in worst_of(text)]
    assert is_stilted(text)


def test_plain_sentences_are_not_counted() -> None:
    for text in (
        "The broker stores the batch and answers with its base offset.",
        "A retry gets its original offset.",
        "Refused if the new pattern does not compile.",
        "The topic is no longer there.",
    ):
        assert not worst_of(text)
        assert not is_stilted(text)


def test_docstrings_comments_messages_and_documents_are_read(tmp_path: Path) -> None:
    code = (
        '"""The module is made anew."""\n# A comment that is long\n# and goes on.\nraise E(f"the file {path} is gone by now")\n'
    )
    (tmp_path / "code.py").write_text(code, encoding="utf-8")
    (tmp_path / "page.md").write_text("# A title of four words\n\n```\nnot read at all\n```\n\n* one item of a list\n", "utf-8")
    (tmp_path / "data.toml").write_text('does = "It sends the batch again."\n', encoding="utf-8")
    read = [(sentence.path.name, sentence.line, sentence.text) for path in files(tmp_path) for sentence in sentences(path)]
    assert read == [
        ("code.py", 1, "The module is made anew."),
        ("code.py", 4, "the file {} is gone by now"),
        ("code.py", 2, "A comment that is long and goes on."),
        ("data.toml", 1, "It sends the batch again."),
        ("page.md", 1, "A title of four words"),
        ("page.md", 7, "one item of a list"),
    ]
