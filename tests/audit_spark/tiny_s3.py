"""A small S3 over a folder, for clients that list and read: ListObjectsV2 in pages, HeadObject, GetObject with ranges."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 7
"""The number of keys in a page of a listing. (Amazon's S3 returns pages of 1000 keys.)"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path, asked = self.root / unquote(url.path).strip("/"), parse_qs(url.query)
        if "list-type" in asked and path.is_dir():
            return self._response(200, self._listing(path, asked))
        if not path.is_file():
            return self._response(404, b"<Error><Code>NoSuchKey</Code></Error>")
        whole = path.read_bytes()
        if (told := self.headers.get("Range")) is None:
            return self._response(200, whole)
        first, _, last = told.removeprefix("bytes=").partition("-")
        end = min(int(last or len(whole)), len(whole) - 1)
        return self._response(206, whole[int(first) : end + 1], f"bytes {first}-{end}/{len(whole)}")

    do_HEAD = do_GET  # noqa: N815

    def _response(self, status: int, body: bytes, content_range: str = "") -> None:
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), ("Last-Modified", formatdate(0, usegmt=True)),
                            ("ETag", '"x"'), ("Content-Range", content_range)):  # fmt: skip
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _listing(self, bucket: Path, asked: dict[str, list[str]]) -> bytes:
        prefix, delimiter = asked.get("prefix", [""])[0], asked.get("delimiter", [""])[0]
        keys = sorted(str(each.relative_to(bucket)) for each in bucket.rglob("*") if each.is_file())
        keys = [each for each in keys if each.startswith(prefix)]
        folders = {prefix + rest.partition("/")[0] + "/" for each in keys if delimiter and "/" in (rest := each[len(prefix) :])}
        named = [each for each in keys if not any(each.startswith(folder) for folder in folders)]
        begin = int(asked.get("continuation-token", ["0"])[0])
        page = named[begin : begin + PAGE]
        more = begin + PAGE < len(named)
        contents = "".join(
            f"<Contents><Key>{escape(each)}</Key><Size>{(bucket / each).stat().st_size}</Size>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>x</ETag></Contents>" for each in page
        )  # fmt: skip
        common = "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders))
        token = f"<NextContinuationToken>{begin + PAGE}</NextContinuationToken>" if more else ""
        return (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated><KeyCount>{len(page) + len(folders)}</KeyCount>"
            f"{token}{contents}{common}</ListBucketResult>"
        ).encode()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Starts an S3 whose buckets are the subfolders of `root`, and returns its address."""
    handler = type("Handler", (_Handler,), {"root": root})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
