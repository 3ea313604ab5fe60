"""`python -m wirebroker`: the command."""

import sys

from wirebroker.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
