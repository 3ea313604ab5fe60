"""The manifests of Aiven's plugin for tiered storage. A manifest says how a segment is stored. No Spark here."""

from __future__ import annotations

import json
from pathlib import Path

from kafkawire.batches import HEADER_SIZE
from kafkawire.disk.damage import reason
from kafkawire.disk.opening import open_to_read, read_whole
from wirebroker_audit.reading.scan import looks_like_batch


def why_unreadable(path: Path, manifest: str) -> str:
    """Returns the reason why the audit cannot read a segment: the segment is compressed or encrypted. Returns "" if the segment
    has the bytes that a broker wrote.

    The plugin writes the manifest last. Without a manifest, the function looks at the beginning of the segment.
    """
    try:
        told = json.loads(read_whole(path.with_name(manifest)))
        ways = [name for name, key in (("compressed", "compression"), ("encrypted", "encryption")) if told.get(key)]
        return f"{path} is {' and '.join(ways)}, which the audit cannot read" if ways else ""
    except FileNotFoundError:
        why = "has no manifest"
    except OSError as refused:
        why = f"has a manifest that cannot be read: {reason(refused)}"
    except (ValueError, AttributeError, RecursionError):
        why = "has a damaged manifest"
    try:
        with open_to_read(path) as file:
            is_plain = looks_like_batch(memoryview(file.read(HEADER_SIZE)))
    except OSError:
        return ""  # whoever reads the segment reports the error
    return "" if is_plain else f"{path} {why}, and does not begin with a batch: it may be compressed or encrypted"
