"""Error messages name the command that installs an extra in the user's installation: a clone, a wheel or a repository."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest

from kafkawire.extras import how_to_install

ROOT = Path(__file__).resolve().parent.parent
WHEEL = "file:///dist/wirebroker-0.1.0-py3-none-any.whl"


class Installed:
    """A stand-in for an installed distribution. `origin` is the content of its file direct_url.json (PEP 610)."""

    requires = ("msgspec>=0.20", 'starlette>=0.46; extra == "control"', "uvicorn; os_name != 'nt' and extra == 'control'")

    def __init__(self, origin: dict[str, object] | None) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        return json.dumps(self._origin) if name == "direct_url.json" and self._origin is not None else None


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///a%20clone", "dir_info": {"editable": True}}, "pip install -e '/a clone[control]'"),
        ({"url": "file:///clone", "dir_info": {}}, "pip install '/clone[control]'"),
        ({"url": WHEEL, "archive_info": {}}, "pip install '/dist/wirebroker-0.1.0-py3-none-any.whl[control]'"),
        ({"url": "https://host/w.whl", "archive_info": {}}, "pip install 'wirebroker[control] @ https://host/w.whl'"),
        ({"url": "https://host/w", "vcs_info": {"vcs": "git"}}, "pip install 'wirebroker[control] @ git+https://host/w'"),
        (None, "pip install 'starlette>=0.46' 'uvicorn'"),
    ],
)
def test_the_command_fits_how_wirebroker_was_installed(
    origin: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Distribution, "from_name", lambda name: Installed(origin))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert how_to_install("control") == f"run `{command}`"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # as in an environment without pip, such as uv makes
    assert how_to_install("control") == f"run `uv {command.replace('install', f'install --python {sys.executable}', 1)}`"


def test_without_an_installation_in_the_single_file_and_in_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(Distribution, "from_name", absent)
    assert how_to_install("tls") == "run `pip install '.[tls]'` in a clone of wirebroker"
    monkeypatch.setitem(sys.modules, "_bootstrap", sys)
    assert how_to_install("tls").startswith("the single file does not have them; install wirebroker with the extra tls from a")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert how_to_install("audit").startswith(
        "the runtime without Python does not have them; install wirebroker with the extra"
    )


def test_the_extra_of_the_quick_starts_reads_what_any_client_writes() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras["codecs"]) <= set(extras["control"])


def test_nothing_advises_to_install_by_a_name_that_is_not_released() -> None:
    folders = [ROOT / each for each in ("broker", "protocol", "pipeline", "tools", "docs", "scripts", "ecosystem")]
    files = [ROOT / "README.md", *(file for folder in folders for file in folder.rglob("*"))]
    for file in files:
        if file.suffix in {".py", ".md", ".go", ".mjs", ".java", ".cs", ".rs", ".txt", ""} and file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            assert re.findall(r"install '?wirebroker\[|(?<![./])wirebroker\[[a-z]+\](?! @)", text) == [], file
