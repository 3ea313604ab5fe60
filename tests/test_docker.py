"""The container image and the compose file, as far as they can be tried without a container engine.

The compose file is checked against the schema of the Compose Specification. The Dockerfile's steps run in a temporary folder
and a clean environment, and its entry point is started.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from controlkit import ControlClient
from kafkawire.messages.metadata import MetadataRequest
from wirebroker.wire_client import WireClient

ROOT = Path(__file__).resolve().parent.parent
OFFLINE = re.compile(r"NewConnectionError|name resolution|Max retries exceeded|Network is unreachable")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile: instruction and arguments, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line and not line.startswith("#")]


def instruction(name: str) -> str:
    (arguments,) = [arguments for found, arguments in instructions() if found == name]
    return arguments


def health_command() -> list[str]:
    """The command of the image's health check."""
    found: list[str] = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    return found


def compose() -> dict[str, Any]:
    yaml: Any = pytest.importorskip("yaml")
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return loaded


def service() -> tuple[str, dict[str, Any]]:
    ((name, described),) = compose()["services"].items()
    return name, described


def flags(command: list[str]) -> dict[str, str]:
    """`--flag=value` arguments by their flag."""
    return {flag: value for flag, _, value in (argument.partition("=") for argument in command)}


def build_context(target: Path) -> None:
    """Copy what .dockerignore lets through: all is excluded, then single names are let in again."""
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert rules[0] == "*"
    ignored = [rule.removeprefix("**/") for rule in rules[1:] if not rule.startswith("!")]
    for name in (rule[1:] for rule in rules if rule.startswith("!")):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns(*ignored))
        else:
            target.mkdir(exist_ok=True)
            shutil.copy(source, target / name)
    assert not [path for path in target.rglob("*") if any(fnmatch.fnmatch(path.name, rule) for rule in ignored)]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs that the Dockerfile's RUN steps install."""
    folder = tmp_path_factory.mktemp("image")
    build_context(folder / "src")
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    steps = [step for name, arguments in instructions() if name == "RUN" for step in arguments.split(" && ")]
    pip = [step for step in steps if step.startswith("pip ")]
    left = [step for step in steps if step not in pip]
    assert [step.split()[0] for step in left] == ["rm", "useradd"], "steps that make no sense outside a container"
    for step in pip:
        arguments = [part.replace("/src", str(folder / "src")) for part in shlex.split(step)]
        run = subprocess.run(
            [programs / "python", "-m", *arguments, "--disable-pip-version-check"], capture_output=True, text=True
        )
        if run.returncode and OFFLINE.search(run.stdout + run.stderr):
            pytest.skip("the package index cannot be reached, so the image's packages cannot be installed")
        assert run.returncode == 0, run.stderr
    return programs


@pytest.fixture
def container(image: Path) -> Iterator[tuple[Path, list[tuple[str, int]], str]]:
    """The image's entry point with the compose file's command, on loopback and any free ports; where it listens, and
    where its control is.
    """
    command = [*json.loads(instruction("ENTRYPOINT")), *service()[1]["command"]]
    assert command[0] == "wirebroker"
    here = [re.sub(r"=0\.0\.0\.0:\d+(@|$)", r"=127.0.0.1:0\1", argument) for argument in command[1:]]
    process = subprocess.Popen(
        [image / command[0], *here, "--host", "127.0.0.1", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    out = process.stdout
    assert out is not None
    try:
        said = list(takewhile(lambda line: line != "ready\n", out))
        listening = [re.fullmatch(r"listening on (\S+):(\d+) \(.*\)\n", line) for line in said]
        (control,) = [line.removeprefix("control on ").strip() for line in said if line.startswith("control on ")]
        yield image, [(match[1], int(match[2])) for match in listening if match], control
    finally:
        process.terminate()
        assert process.wait(10) == 0
        out.close()


def test_the_compose_file_fits_the_compose_specification() -> None:
    jsonschema: Any = pytest.importorskip("jsonschema")
    schema = json.loads(Path(__file__).with_name("compose-spec.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(compose())] == []
    misspelt = compose()
    misspelt["services"]["wirebroker"]["helthcheck"] = {}
    assert not validator.is_valid(misspelt)


def test_each_network_gets_an_advertised_address_that_it_can_reach() -> None:
    name, described = service()
    told = flags(described["command"])
    published, control = described["ports"]
    interface, outside, inside = published.split(":")
    assert interface == "127.0.0.1", "only this machine reaches it"
    assert control == "127.0.0.1:9099:9099"
    assert told["--control"] == "0.0.0.0:9099", "as others of the container's network"
    assert told["--control-allow-host"] == name, "by which containers ask for it"
    assert told["--advertise"] == f"localhost:{outside}"
    assert inside == instruction("EXPOSE")
    listener = re.fullmatch(r"NETWORK=0\.0\.0\.0:(\d+)@(\w+):(\d+)", told["--listener"])
    assert listener is not None
    assert listener[2] == name, "a service's name is its address in the compose network"
    assert [listener[1]] == [listener[3]] == described["expose"]


def test_the_image_runs_without_rights_and_takes_connections_from_outside() -> None:
    names = [name for name, _ in instructions()]
    assert names[0] == "FROM"
    assert instruction("FROM") == "python:3.12-slim"
    assert instruction("USER") == "wirebroker"
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN"), "installing needs rights"
    assert json.loads(instruction("ENTRYPOINT")) == ["wirebroker", "serve", "--host", "0.0.0.0"]


def test_both_health_checks_run_the_same_command() -> None:
    assert service()[1]["healthcheck"]["test"] == ["CMD", *health_command()]


@pytest.mark.timeout(300)
def test_the_container_is_healthy_and_advertises_both_addresses(
    container: tuple[Path, list[tuple[str, int]], str],
) -> None:
    programs, (outside, inside), control = container
    _, described = service()
    for (host, port), advertised in ((outside, "localhost:9092"), (inside, "wirebroker:29092")):
        answer = WireClient(host, port).request(MetadataRequest(topics=None), 9)
        assert [f"{broker.host}:{broker.port}" for broker in answer.brokers] == [advertised]
        topics = {f"{topic.name}:{len(topic.partitions)}" for topic in answer.topics}
        assert topics == {flags(described["command"])["--topic"]}
    assert ControlClient(control).ask("GET", "/health")["bootstrap_servers"] == "localhost:9092"
    for host, status in (("localhost:9099", 200), ("wirebroker:9099", 200), ("evil.example:9099", 403)):
        assert ControlClient(control).send("GET", "/health", headers={"Host": host}).status == status
    program, *arguments = health_command()
    healthy = [argument.replace("127.0.0.1:9092", f"{outside[0]}:{outside[1]}") for argument in arguments]
    assert healthy != arguments
    assert subprocess.run([programs / program, *healthy], timeout=10).returncode == 0
    with_nobody_there = [argument.replace("127.0.0.1:9092", "127.0.0.1:1") for argument in arguments]
    assert subprocess.run([programs / program, *with_nobody_there], timeout=10, stderr=subprocess.DEVNULL).returncode == 1
    asked = "import importlib.util as u; print([bool(u.find_spec(n)) for n in ('cramjam', 'wirebroker', 'kafka', 'pytest')])"
    run = subprocess.run([programs / "python", "-c", asked], capture_output=True, text=True, cwd=programs)
    assert run.stdout == "[True, True, False, False]\n", "the codecs, and no client"
