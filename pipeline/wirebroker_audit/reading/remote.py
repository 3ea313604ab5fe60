"""Log directories in an object store or in HDFS, read through pyarrow: `s3a://bucket/logs`, `hdfs://host:port/logs`, `abfs:`.

A `RemotePath` has the methods of `Path` that the audit uses, so the readers work with paths of both kinds. The text of a
`RemotePath` keeps the scheme and the authority (`s3a://bucket/logs/orders-0`). So the text is all that executors need to open
the file system again. The driver lists a whole directory with few requests, and looks up names and sizes in that list.
"""

from __future__ import annotations

import importlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from kafkawire.extras import how_to_install

S3, HDFS, AZURE = ("s3", "s3a"), ("hdfs", "viewfs"), ("abfs", "abfss")
SCHEMES = (*S3, *HDFS, *AZURE)
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Environment variables that name the address of an S3 service other than Amazon's."""
AZURE_ENDPOINT = "AZURE_STORAGE_ENDPOINT"
"""The environment variable that names the address of an Azure Blob Storage other than Microsoft's, such as Azurite."""
HDFS_SETTINGS = {"dfs.client.failover.max.attempts": "3"}
"""With these settings, a connection to an absent NameNode fails after 10 s instead of three minutes."""
_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)}):/+(.+)", re.IGNORECASE)

_listed: dict[str, dict[str, dict[str, fs.FileInfo]]] = {}
"""maps each listed root to its folders, and each folder to its entries by name"""


def place(text: str | Path) -> Path:
    """Returns a `RemotePath` for an address or for the text of a `RemotePath`, else a `Path`. Both have the same methods."""
    match = _ADDRESS.match(str(text))
    return Path(text) if match is None else cast(Path, RemotePath(f"{match[1].lower()}:/{match[2]}"))


def is_remote(path: Path) -> bool:
    return isinstance(path, RemotePath)


class RemotePath(PurePosixPath):
    """A path of a remote file system. All errors that its methods raise are OSErrors."""

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def resolve(self) -> RemotePath:
        """Returns the path itself, because a remote file system has no links."""
        return self

    def list_whole(self) -> None:
        """List everything below this folder now; names and sizes below it come from this list until the next call."""
        with _asking(self):
            system, folder = _system(self)
            found = system.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
        entries: dict[str, dict[str, fs.FileInfo]] = {folder: {}}
        for each in found:
            parent, _, name = each.path.rstrip("/").rpartition("/")
            entries.setdefault(parent, {})[name] = each
        _listed.clear()
        _listed[folder] = entries

    def iterdir(self) -> Iterator[RemotePath]:
        """Yields the entries of the folder. Raises FileNotFoundError."""
        for name in self._entries():
            yield self / name

    def is_dir(self) -> bool:
        """Tells whether this path is a folder. In an object store, a folder exists only if something is in it."""
        return bool(self._info().type == fs.FileType.Directory)

    def exists(self) -> bool:
        """Tells whether a file or folder of this name exists."""
        return bool(self._info().type != fs.FileType.NotFound)

    def stat(self) -> Any:
        """Returns the file's size as `st_size`; `st_ino` is 0."""
        info = self._info()
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(2, os.strerror(2), str(self))
        return SimpleNamespace(st_size=info.size or 0, st_ino=0)

    def open(self, mode: str = "rb", buffering: int = -1) -> BinaryIO:
        """Opens the file for reading; each read is a request."""
        system, path = _system(self)
        if any(path.startswith(f"{root}/") for root in _listed):
            self.stat()
        return cast(BinaryIO, system.open_input_file(path))

    def read_bytes(self) -> bytes:
        with self.open() as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        """Returns the whole content of the file as text."""
        return io.TextIOWrapper(io.BytesIO(self.read_bytes()), encoding).read()

    def _entries(self) -> dict[str, fs.FileInfo]:
        with _asking(self):
            system, path = _system(self)
        for root, folders in _listed.items():
            if path == root or path.startswith(f"{root}/"):
                return folders.get(path, {})
        with _asking(self):
            found = system.get_file_info(fs.FileSelector(path))
        return {each.base_name: each for each in found}

    def _info(self) -> fs.FileInfo:
        with _asking(self):
            system, path = _system(self)
        for root, folders in _listed.items():
            if path.startswith(f"{root}/"):
                parent, _, name = path.rpartition("/")
                if (info := folders.get(parent, {}).get(name)) is not None:
                    return info
                return fs.FileInfo(path, fs.FileType.Directory if path in folders else fs.FileType.NotFound)
        with _asking(self):
            return system.get_file_info(path)


def files_in(folder: Path) -> dict[str, int]:
    """Returns the names and sizes of the plain files in a folder, from one listing. Raises FileNotFoundError, OSError."""
    if isinstance(folder, RemotePath):
        return {name: info.size or 0 for name, info in folder._entries().items() if info.type == fs.FileType.File}
    with os.scandir(folder) as entries:
        return {each.name: each.stat().st_size for each in entries if each.is_file(follow_symlinks=False)}


@contextmanager
def _asking(path: RemotePath) -> Iterator[None]:
    """Turns errors of Arrow into OSErrors that name the path. For example, Azure raises such an error if credentials are
    missing."""
    try:
        yield
    except pa.ArrowException as failed:
        raise OSError(None, str(failed).strip().partition("\n")[0], str(path)) from failed


def _system(path: RemotePath) -> tuple[fs.FileSystem, str]:
    scheme, authority, *rest = path.parts
    scheme = scheme.rstrip(":")
    if scheme in S3:
        return _s3(), "/".join((authority, *rest))
    if scheme in AZURE:
        container, _, host = authority.partition("@")
        return _azure(host), "/".join((container, *rest))
    return _hadoop(f"{scheme}://{authority}"), "/" + "/".join(rest)


@cache
def _s3() -> fs.FileSystem:
    """Connects to S3 with the credentials that Amazon's tools find: variables, profile, or the machine's role."""
    endpoint = next((os.environ[name] for name in ENDPOINTS if name in os.environ), None)
    if endpoint is None:
        return fs.S3FileSystem()
    found = urlsplit(endpoint)
    return fs.S3FileSystem(
        endpoint_override=found.netloc, scheme=found.scheme, region=os.environ.get("AWS_REGION", "us-east-1")
    )


@cache
def _azure(host: str) -> fs.FileSystem:
    """Connects to the storage account of a host such as `account.dfs.core.windows.net`, or to the address in
    `AZURE_STORAGE_ENDPOINT`.

    The credentials are a key or a token from an environment variable, or else the credentials that Azure's own libraries find.
    """
    account, _, cloud = host.partition(".")
    secrets = {"account_key": os.environ.get("AZURE_STORAGE_KEY"), "sas_token": os.environ.get("AZURE_STORAGE_SAS_TOKEN")}
    given = {name: value for name, value in secrets.items() if value}
    if AZURE_ENDPOINT in os.environ:
        found = urlsplit(os.environ[AZURE_ENDPOINT])
        where = {"blob_storage_authority": found.netloc, "blob_storage_scheme": found.scheme}
        where |= {"dfs_storage_authority": found.netloc, "dfs_storage_scheme": found.scheme}
    else:
        dfs = f".{cloud or 'dfs.core.windows.net'}"
        where = {"dfs_storage_authority": dfs, "blob_storage_authority": dfs.replace(".dfs.", ".blob.", 1)}
    return fs.AzureFileSystem(account_name=account, **given, **where)


@cache
def _hadoop(address: str) -> fs.FileSystem:
    """Connects to HDFS through hdfs-native, which needs no Java, or through the libhdfs of an installed Hadoop. Raises
    OSError."""
    try:
        client = importlib.import_module("hdfs_native.fsspec")
    except ImportError:
        if "HADOOP_HOME" not in os.environ:
            raise OSError(
                None, f"to read hdfs:, {how_to_install('hdfs')}, or set HADOOP_HOME and a CLASSPATH of Hadoop's jars", address
            ) from None
        return fs.HadoopFileSystem.from_uri(address)
    found = urlsplit(address)
    kind = client.ViewfsFileSystem if found.scheme == "viewfs" else client.HdfsFileSystem
    return fs.PyFileSystem(fs.FSSpecHandler(kind(host=found.hostname, port=found.port, **HDFS_SETTINGS)))


def size_of(file: BinaryIO) -> int:
    """Returns the present size of an open file in bytes."""
    return file.seek(0, os.SEEK_END)
