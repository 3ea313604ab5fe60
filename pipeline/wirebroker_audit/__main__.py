"""`python -m wirebroker_audit`, for spark-submit; it has the flags of `wirebroker audit`."""

import sys

from wirebroker.commands.cli import main

if __name__ == "__main__":
    sys.exit(main(["audit", *sys.argv[1:]]))
