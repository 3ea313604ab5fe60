"""The rules for topic names (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re

LONGEST = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_NOT_IN_PATHS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""Java's char values that ZooKeeper refuses. Java writes a character beyond 0xffff as two surrogates, which are refused."""


def topic_name_error(name: str) -> str | None:
    """Returns Kafka's message about an invalid topic name, or None if the name is valid."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > LONGEST:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {LONGEST}"
    if _LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def ends_zookeeper_path(name: str) -> bool:
    """Tells whether a path in ZooKeeper can end with `name` (ZooKeeper's PathUtils.validatePath)."""
    return _NOT_IN_PATHS.search(name) is None and not any(part in ("", ".", "..") for part in name.split("/"))
