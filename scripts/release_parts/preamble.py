"""The start of wirebroker's single file: checks that its compiled modules fit the platform and this version of Python."""

import sys

try:
    import crc32c  # noqa: F401
except ImportError:
    version = ".".join(map(str, sys.version_info[:2]))
    sys.exit(
        f"wirebroker: this file has no compiled modules for Python {version} on {sys.platform}; "
        "run it with another version of Python, or install wirebroker with pip"
    )
