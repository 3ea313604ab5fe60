"""The container image and the compose file, tested without a container engine.

The compose file is checked against the schema of the Compose Specification. The Dockerfile's steps run in a temporary folder
and a clean environment, and its entry point is started.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from controlkit import ControlClient
from kafkawire.messages.metadata import MetadataRequest
from wirebroker.client.wire import WireClient

ROOT = Path(__file__).resolve().parent.parent
OFFLINE = re.compile(r"NewConnectionError|name resolution|Max retries exceeded|Network is unreachable")


Instruction = tuple[str, str]


def stages() -> dict[str, list[Instruction]]:
    """For each stage in the Dockerfile, returns its instructions and their arguments. Continued lines are joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    found: dict[str, list[Instruction]] = {}
    for name, arguments in (line.split(maxsplit=1) for line in lines if line and not line.startswith("#")):
        if name == "FROM":
            base, _, stage = arguments.split()
            found[stage] = []
        found[stage].append((name, base if name == "FROM" else arguments))
    return found


def instructions(target: str = "broker") -> list[Instruction]:
    """Returns all instructions that build an image, including the instructions of its base images."""
    known = stages()
    (_, base), *own = known[target]
    return [*(instructions(base) if base in known else [("FROM", base)]), *own]


def instruction(name: str, target: str = "broker") -> str:
    (arguments,) = [arguments for found, arguments in instructions(target) if found == name]
    return arguments


def health_command() -> list[str]:
    """Returns the command of the image's health check."""
    found: list[str] = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    return found


def compose() -> dict[str, Any]:
    yaml: Any = pytest.importorskip("yaml")
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return loaded


def service(name: str = "wirebroker") -> dict[str, Any]:
    described: dict[str, Any] = compose()["services"][name]
    return described


def flags(command: list[str]) -> dict[str, str]:
    """Returns the values of arguments such as `--flag=value`, by flag."""
    return {flag: value for flag, _, value in (argument.partition("=") for argument in command)}


def build_context(target: Path) -> None:
    """Copies the files that .dockerignore includes. (.dockerignore first excludes everything, and then includes single
    names.)
    """
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
    """Runs the Dockerfile's RUN steps, and returns the folder with the programs that these steps install."""
    folder = tmp_path_factory.mktemp("image")
    build_context(folder / "src")
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    steps = [step for name, said in [*stages()["wheel"], *instructions()] if name == "RUN" for step in said.split(" && ")]
    installing = [step for step in steps if step.startswith(("pip ", "uv "))]
    left = [step for step in steps if step not in installing]
    assert [step.split()[0] for step in left] == ["useradd", "mkdir", "chown"], "only these steps are skipped"
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for step in installing:
        here = re.sub(r"/(src|dist)\b", rf"{folder}/\1", step)
        run = subprocess.run(["sh", "-c", here], capture_output=True, text=True, env=environment)
        if run.returncode and OFFLINE.search(run.stdout + run.stderr):
            pytest.skip("the package index cannot be reached, so the image's packages cannot be installed")
        assert run.returncode == 0, run.stderr
    return programs


@pytest.fixture
def container(image: Path) -> Iterator[tuple[Path, list[tuple[str, int]], str]]:
    """Starts the image's entry point with the compose file's command, on the loopback address and free ports. Returns the
    programs' folder and the addresses of the listeners and of the control.
    """
    command = [*json.loads(instruction("ENTRYPOINT")), *service()["command"]]
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


@pytest.mark.parametrize(("name", "brokers"), [("wirebroker", 1), ("three", 3)])
def test_each_network_gets_an_advertised_address_that_it_can_reach(name: str, brokers: int) -> None:
    described = service(name)
    told = flags(described["command"])
    assert int(told.get("--brokers", 1)) == brokers

    def ports(first: int) -> str:
        return str(first) if brokers == 1 else f"{first}-{first + brokers - 1}"

    first = int(told.get("--port", instruction("EXPOSE")))
    control = told["--control"].removeprefix("0.0.0.0:")
    assert told["--control-allow-host"] == name, "other containers connect to this name"
    assert told["--advertise"] == f"localhost:{first}"
    only_this_machine = [f"127.0.0.1:{ports(first)}:{ports(first)}", f"127.0.0.1:{control}:{control}"]
    assert described["ports"] == only_this_machine
    listener = re.fullmatch(r"NETWORK=0\.0\.0\.0:(\d+)@(\w+):(\d+)", told["--listener"])
    assert listener is not None
    assert listener[2] == name, "a service's name is its address in the compose network"
    assert listener[1] == listener[3]
    assert [ports(int(listener[1]))] == described["expose"]


def test_only_the_broker_starts_without_a_profile() -> None:
    assert [name for name, described in compose()["services"].items() if "profiles" not in described] == ["wirebroker"]
    both = [port for name in ("wirebroker", "three") for port in service(name)["ports"]]
    assert len(set(both)) == len(both), "both services can run at the same time"


@pytest.mark.parametrize("target", ["broker", "audit"])
def test_the_images_run_without_rights_and_own_their_volume(target: str) -> None:
    names = [name for name, _ in instructions(target)]
    assert re.fullmatch(r"python:3\.12\.\d+-slim-\w+@sha256:[0-9a-f]{64}", instruction("FROM", target))
    assert instruction("USER", target) == "wirebroker"
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN"), "installing needs rights"
    assert instruction("VOLUME", target) == instruction("WORKDIR", target) == "/data"
    (made,) = [arguments for name, arguments in instructions(target) if name == "RUN" and "/data" in arguments]
    assert made.endswith("mkdir /data && chown wirebroker /data")
    assert list(stages())[-1] == "broker", "`docker build` without --target makes the last stage"


def test_the_entry_points() -> None:
    takes_connections_from_outside = ["wirebroker", "serve", "--host", "0.0.0.0"]
    assert json.loads(instruction("ENTRYPOINT")) == takes_connections_from_outside
    assert json.loads(instruction("ENTRYPOINT", "audit")) == ["wirebroker", "audit"]
    assert any("audit.txt" in arguments for name, arguments in instructions("audit") if name == "RUN")


def test_the_packages_of_the_images_are_those_of_the_lock_file() -> None:
    installing = [text for _, said in stages().items() for name, text in said if name == "RUN" and "pip install" in text]
    for command in installing:
        pinned = re.search("--require-hashes -r /(dist|src)/|--no-deps /dist/", command)
        assert pinned, command


def test_the_wheel_that_the_image_installs_has_the_audit() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for package in packages["wheel"]["packages"]:
        assert f"!{package.partition('/')[0]}" in let_in


PAGE = (ROOT / "docs" / "start" / "docker.md").read_text(encoding="utf-8")


def shown_on_page(part: str) -> list[Any]:
    """Returns the documents of the YAML blocks in docs/start/docker.md that have this part."""
    yaml: Any = pytest.importorskip("yaml")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [document for block in blocks if part in block for document in yaml.safe_load_all(block)]


def services_on_page() -> list[dict[str, str]]:
    """Returns the variables of the brokers in the examples for GitHub, GitLab and Kubernetes. For Kubernetes, these are the
    variables of the flags.
    """
    github, gitlab = shown_on_page("services:")
    deployment, _ = shown_on_page("kind: Service")
    kubernetes = flags(deployment["spec"]["template"]["spec"]["containers"][0]["args"])
    del kubernetes["--listener"]
    return [
        github["jobs"]["test"]["services"]["wirebroker"]["env"],
        gitlab["test"]["services"][0]["variables"],
        {f"WIREBROKER_{flag[2:].upper().replace('-', '_')}": value for flag, value in kubernetes.items()},
    ]


def test_the_manifest_for_kubernetes_names_the_same_addresses_everywhere() -> None:
    deployment, found = shown_on_page("kind: Service")
    pod = deployment["spec"]["template"]
    name = found["metadata"]["name"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"] == found["spec"]["selector"]
    (broker,) = pod["spec"]["containers"]
    ports = {each["name"]: each["port"] for each in found["spec"]["ports"]}
    assert ports == {each["name"]: each["containerPort"] for each in broker["ports"]}
    told = flags(broker["args"])
    assert int(instruction("EXPOSE")) == ports["kafka"], "the broker listens at this port without --port"
    assert told["--advertise"] == f"{name}:{ports['kafka']}"
    assert told["--control"] == f"0.0.0.0:{ports[broker['readinessProbe']['httpGet']['port']]}"
    assert told["--control-allow-host"] == name
    assert re.fullmatch(r"FORWARDED=0\.0\.0\.0:(\d+)@localhost:\1", told["--listener"])
    assert pod["spec"]["enableServiceLinks"] is False, f"the Service would set {name.upper()}_PORT"


def test_the_libraries_find_the_brokers_of_the_examples() -> None:
    """An example with a broker in a container gives the tests its addresses, in the variables that the libraries read."""
    blocks = [block for block in re.findall(r"^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if "go test" in block]
    own = [block for block in blocks if "setup-wirebroker" not in block]  # that action sets the variables itself
    assert (len(own), len(blocks)) == (3, 4)
    for block in own:
        advertised = re.search(r"WIREBROKER_ADVERTISE: (\S+)", block)
        address = advertised[1] if advertised else "localhost:9092"
        assert re.search(rf"WIREBROKER_BOOTSTRAP(?:: |=){address}\b", block)
        assert re.search(rf"WIREBROKER_CONTROL(?:: |=)http://{address.replace('9092', '9099')}\b", block)


@pytest.mark.parametrize("number", [0, 1, 2], ids=["github", "gitlab", "kubernetes"])
def test_the_services_advertise_what_the_page_says(number: int) -> None:
    shown = services_on_page()[number]
    here = os.environ | shown | {"WIREBROKER_CONTROL": "127.0.0.1:0"}
    command = [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen(command, env=here, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = {line.split()[0]: line.split()[2] for line in takewhile(lambda line: line != "ready\n", process.stdout)}
        host, _, port = said["listening"].rpartition(":")
        response = WireClient(host, int(port)).request(MetadataRequest(topics=None), 9)
        assert [f"{broker.host}:{broker.port}" for broker in response.brokers] == [shown["WIREBROKER_ADVERTISE"]]
        assert [f"{topic.name}:{len(topic.partitions)}" for topic in response.topics] == [shown["WIREBROKER_TOPIC"]]
        asked_as = shown["WIREBROKER_ADVERTISE"].replace("9092", "9099")
        assert ControlClient(said["control"]).send("GET", "/health", headers={"Host": asked_as}).status == 200
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def test_publishing_prints_its_commands() -> None:
    command = ["bash", ROOT / "scripts" / "publish-image", "--dry-run", "--push", "example.org/me/wirebroker"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    steps = [line.split()[2] for line in run.stdout.splitlines() if line.startswith("+ docker")]
    assert steps == ["build", "build", "run", "exec", "stop", "run", *["push"] * 4, "rm", "volume"], run.stderr
    for target in re.findall(r"--target (\w+)", run.stdout):
        assert target in stages()


def test_the_health_checks_run_the_same_command() -> None:
    assert service()["healthcheck"]["test"] == ["CMD", *health_command()]
    three = " ".join(service("three")["healthcheck"]["test"])
    assert three == " ".join(["CMD", *health_command(), "--bootstrap 127.0.0.1:9192"]), (
        "the health check must name the port, because a flag and not the environment sets it"
    )


@pytest.mark.timeout(300)
def test_the_container_is_healthy_and_advertises_both_addresses(
    container: tuple[Path, list[tuple[str, int]], str],
) -> None:
    programs, (outside, inside), control = container
    described = service()
    for (host, port), advertised in ((outside, "localhost:9092"), (inside, "wirebroker:29092")):
        response = WireClient(host, port).request(MetadataRequest(topics=None), 9)
        assert [f"{broker.host}:{broker.port}" for broker in response.brokers] == [advertised]
        topics = {f"{topic.name}:{len(topic.partitions)}" for topic in response.topics}
        assert topics == {flags(described["command"])["--topic"]}
    assert ControlClient(control).ask("GET", "/health")["bootstrap_servers"] == "localhost:9092"
    for host, status in (("localhost:9099", 200), ("wirebroker:9099", 200), ("evil.example:9099", 403)):
        assert ControlClient(control).send("GET", "/health", headers={"Host": host}).status == status
    program, *arguments = health_command()
    for port, exit_code in ((outside[1], 0), (1, 1)):
        environment = os.environ | {"WIREBROKER_PORT": str(port)}
        command = [programs / program, *arguments]
        assert subprocess.run(command, timeout=30, stderr=subprocess.DEVNULL, env=environment).returncode == exit_code
    asked = "import importlib.util as u; print([bool(u.find_spec(n)) for n in ('cramjam', 'wirebroker', 'kafka', 'pytest')])"
    run = subprocess.run([programs / "python", "-c", asked], capture_output=True, text=True, cwd=programs)
    assert run.stdout == "[True, True, False, False]\n", "the image has the codecs, but no client and no pytest"
