"""The executable of the runtime: the command `wirebroker`, in a process whose child processes use the system's own
libraries."""

import os
import sys

for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
    # The frozen program finds its own libraries by this variable. The commands that `explore` runs must not use these
    # libraries.
    original = os.environ.pop(f"{name}_ORIG", None)
    os.environ.pop(name, None)
    if original is not None:
        os.environ[name] = original

from wirebroker.commands.cli import main

sys.exit(main())
