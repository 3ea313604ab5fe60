"""Pack a folder so that the same files always give the same archive: without times and owners, and in a fixed order. Writes
the archive's SHA-256 beside the archive.

pack.py FOLDER ARCHIVE.tar.gz
"""

from __future__ import annotations

import gzip
import hashlib
import sys
import tarfile
from pathlib import Path


def pack(folder: Path, archive: Path) -> None:
    """Write the archive and its checksum."""
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in [folder, *sorted(folder.rglob("*"))]:
            tar.add(path, path.relative_to(folder.parent), recursive=False, filter=_plain)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    archive.with_name(archive.name + ".sha256").write_text(f"{digest}  {archive.name}\n", "utf-8")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
