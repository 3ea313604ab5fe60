"""What all recorders share: the parser of a kind's options, and the folder with the recordings."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"


def parser_of(kind: str, documentation: str | None) -> argparse.ArgumentParser:
    """Returns a parser for the options of `scripts/record KIND`. Its help shows the recorder's documentation."""
    return argparse.ArgumentParser(
        prog=f"scripts/record {kind}", description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
