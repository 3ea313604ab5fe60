"""Adds files from outside of docs/ to the site as pages, and adapts the links to them. MkDocs calls these functions; mkdocs.yml
names this file.

A link in a page is relative to the page's file, so that it also works on GitHub. The site has those files outside of docs/ that
`PAGES` names. A link to any other file outside becomes plain text, because the site does not have the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "ARCHITECTURE.md": "why/architecture.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "why/contributing.md",
    "SECURITY.md": "why/reporting.md",
    "broker/wirebroker/apis/skipped.md": "reference/skipped.md",
    "README.md": "index.md",
}
"""Maps the path of each file outside of docs/ to the path of its page in the site."""
_LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside of docs/."""
    for path, uri in PAGES.items():
        if uri != "index.md":
            files.append(File.generated(config, uri, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Returns the page with links that the site can follow."""
    uri = page.file.src_uri
    source = next((path for path, mapped in PAGES.items() if mapped == uri and uri != "index.md"), f"docs/{uri}")

    def mended(match: re.Match[str]) -> str:
        text, (path, _, anchor) = match[1], match[2].partition("#")
        if "://" in match[2] or not path:
            return match[0]
        target = normpath(join(dirname(source), path))
        if target in PAGES:
            target = PAGES[target]
        elif target.startswith("docs/"):
            target = target.removeprefix("docs/")
        else:
            return text
        return f"[{text}]({relpath(target, dirname(uri))}{'#' if anchor else ''}{anchor})"

    return _LINK.sub(mended, markdown)
