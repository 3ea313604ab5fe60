"""`wirebroker audit`: the exactly-once audit on Spark, from the extra `audit`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from kafkawire.extras import how_to_install

NEEDED = ("pyspark", "pyarrow", "pandas", "numpy", "matplotlib")


def run(options: argparse.Namespace) -> int:
    """Run the audit. Returns the exit code: 0, or 1 if a finding is certain, or 2 if the audit could not run."""
    for name in NEEDED:
        try:
            import_module(name)
        except ImportError:
            print(f"wirebroker audit needs {name}; {how_to_install('audit')}", file=sys.stderr)
            return 2
    code: int = import_module("wirebroker_audit.command").run(options)
    return code
