"""Tells how to install the packages of an extra. The command depends on how wirebroker was installed, because `pip` cannot find
a release of wirebroker by name.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution

NAME = "wirebroker"


def how_to_install(extra: str) -> str:
    """Returns the command that installs the packages of an extra in this process's environment, as a sentence without a full
    stop.
    """
    from importlib.metadata import Distribution, PackageNotFoundError  # takes long to import
    from importlib.util import find_spec

    if getattr(sys, "frozen", False):
        return f"the runtime without Python does not have them; install {NAME} with the extra {extra} from a clone or a wheel"
    if "_bootstrap" in sys.modules:  # shiv's
        return f"the single file does not have them; install {NAME} with the extra {extra} from a clone or a wheel"
    try:
        wanted = _requirement(Distribution.from_name(NAME), extra)
    except PackageNotFoundError:
        return f"run `pip install '.[{extra}]'` in a clone of {NAME}"
    pip = "pip install" if find_spec("pip") is not None else f"uv pip install --python {sys.executable}"
    return f"run `{pip} {wanted}`"


def _requirement(installed: Distribution, extra: str) -> str:
    """Returns the folder, wheel or repository from which wirebroker was installed (PEP 610), with the extra. If this origin is
    unknown, returns the packages of the extra.
    """
    import json
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    url = origin.get("url", "")
    if "vcs_info" in origin:
        return f"'{NAME}[{extra}] @ {origin['vcs_info']['vcs']}+{url}'"
    if urlsplit(url).scheme == "file":
        return f"{'-e ' * origin.get('dir_info', {}).get('editable', False)}'{url2pathname(urlsplit(url).path)}[{extra}]'"
    if url:
        return f"'{NAME}[{extra}] @ {url}'"
    parts = (each.partition(";") for each in installed.requires or ())
    return " ".join(f"'{package.strip()}'" for package, _, marker in parts if f"extra == '{extra}'" in marker.replace('"', "'"))
