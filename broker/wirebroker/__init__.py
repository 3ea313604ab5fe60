"""wirebroker: a Kafka test double that speaks the real wire protocol and responds as a release of Apache Kafka would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirebroker.common.version import __version__

if TYPE_CHECKING:
    from wirebroker.mock import MockKafka, StoredRecord
    from wirebroker.proxy_kafka import ProxyKafka

__all__ = ["MockKafka", "ProxyKafka", "StoredRecord", "__version__"]


def __getattr__(name: str) -> object:
    """Import names on first use, because `import wirebroker` must cost nothing in a process that never starts a broker."""
    if name in ("MockKafka", "StoredRecord"):
        from wirebroker import mock

        return getattr(mock, name)
    if name == "ProxyKafka":
        from wirebroker.proxy_kafka import ProxyKafka

        return ProxyKafka
    raise AttributeError(f"module 'wirebroker' has no attribute {name!r}")
