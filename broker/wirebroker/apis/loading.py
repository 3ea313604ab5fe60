"""Imports modules soon after the start. Otherwise these modules would be imported when they are first used.

A broker that has used up its file descriptors cannot import modules, because an import opens a file. Without this module, such
a broker would close the connection of the first client that sends a Produce.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
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


def imports_of_proxy() -> Iterator[Callable[[], object]]:
    """Yields the imports that a proxy needs later: all messages, the codecs, and modules of Python's library."""
    for module in EVERYWHERE:
        yield partial(_import_if_installed, module)
    for name in (*SERVED, *TELEMETRY):
        yield partial(request_class, KEYS[name])
        yield partial(response_class, KEYS[name])


def imports_of_broker() -> Iterator[Callable[[], object]]:
    """Yields the imports that a broker needs later."""
    yield from imports_of_proxy()
    for module in IN_BROKERS:
        yield partial(import_module, module)
    for name in (*SERVED, *TELEMETRY):
        yield partial(handler_of, KEYS[name])
    for module, _ in (*GROUP_RECORDS.values(), *TRANSACTION_RECORDS.values(), *SHARE_RECORDS.values()):
        yield partial(import_module, f"kafkawire.coordinator_records.{module}")


@cache
def load_broker() -> None:
    """Import everything that a broker needs later. A second call does nothing; the first call takes 40 ms."""
    for each in imports_of_broker():
        each()


def _import_if_installed(name: str) -> None:
    with suppress(ImportError):
        import_module(name)
