"""Runs scripts in the environment .venv, even if another Python starts them.

Scripts import this module first. The module needs only Python itself.
"""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [*(str(ROOT / folder) for folder in ("broker", "protocol", "pipeline", "tools", "tests")), str(ROOT)]
"""The folders of the import packages, the folder of the tests' helpers, and the root, which has `bench` and `ecosystem`."""


def enter(documentation: str | None = None) -> None:
    """If another Python started the script, run it again with the Python of .venv. Then put the sources on the path.

    If .venv is not the developers' environment, the script does not run: with `--help` this function prints the documentation
    (by default the script's docstring) and exits with code 0, else it prints a message and exits with code 2. In the
    developers' environment, the script prints its own help.
    """
    python = ROOT / ".venv" / "bin" / "python"
    if Path(sys.prefix) != ROOT / ".venv" and python.exists():
        os.execv(python, [str(python), *sys.argv])
    if importlib.util.find_spec("pytest") is None:  # only the developers' environment has pytest
        if {"-h", "--help"} & set(sys.argv[1:]):
            print(documentation or sys.modules["__main__"].__doc__)
            sys.exit()
        needed = "the developers' environment in .venv, which `scripts/test --collect-only` makes"
        print(f"scripts/{Path(sys.argv[0]).name} needs {needed}.", file=sys.stderr)
        sys.exit(2)
    os.environ.setdefault(
        "WIREBROKER_EXIT_WITH_PARENT", "1"
    )  # processes that a script starts end with the script, even if the script is killed
    sys.path[1:1] = SOURCES
