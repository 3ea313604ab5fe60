"""Imports, before clients connect, the modules that would otherwise be imported at their first use.

A broker that has used up its file descriptors cannot import modules, because an import opens a file. Without this module, such
a broker would close the connection of the first client that sends a Produce.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module

from kafkawire.coordinator_records import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS
from kafkawire.registry import KEYS, request_class, response_class
from wirebroker.apis import SERVED, TELEMETRY, handler_of

EVERYWHERE = (
    "cramjam", "compression.zstd", "concurrent.futures.thread", "difflib", "encodings.idna", "encodings.utf_16_be",
    "encodings.utf_16_le", "wirebroker.testing.metric_points",
)  # fmt: skip
"""Modules of this package and of Python's library that are otherwise imported only inside functions. Some of these modules may
not be installed.
"""
IN_BROKERS = ("wirebroker.apis.overdue", "wirebroker.faults.plan", "wirebroker.deeds.broker", "wirebroker.requests.errors")


@cache
def load_messages() -> None:
    """Import what a proxy needs later: all messages, the codecs, and modules of Python's library."""
    _import(EVERYWHERE)
    for name in (*SERVED, *TELEMETRY):
        request_class(KEYS[name])
        response_class(KEYS[name])


@cache
def load_broker() -> None:
    """Import all modules that a broker needs later. A second call does nothing; the first call takes 40 ms."""
    load_messages()
    _import(IN_BROKERS)
    for name in (*SERVED, *TELEMETRY):
        handler_of(KEYS[name])
    for module, _ in (*GROUP_RECORDS.values(), *TRANSACTION_RECORDS.values(), *SHARE_RECORDS.values()):
        import_module(f"kafkawire.coordinator_records.{module}")


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        with suppress(ImportError):
            import_module(name)
