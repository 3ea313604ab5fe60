"""Tests the Kubernetes manifest in docs/how-to/proxy-for-long.md without a cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from wirebroker.client.settings import BadConfig, read_access
from wirebroker.commands.cli import build_parser
from wirebroker.commands.proxy import upstream_access
from wirebroker.commands.serve import control_address, rotation_in
from wirebroker.commands.usage import address_in, addresses_in

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "proxy-for-long.md"
UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}


@pytest.fixture
def manifest() -> dict[str, Any]:
    """Returns the objects of the manifest by kind."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


@pytest.fixture
def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    deployment = manifest["Deployment"]["spec"]
    assert deployment["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()
    spec: dict[str, Any] = deployment["template"]["spec"]
    scraped = int(deployment["template"]["metadata"]["annotations"]["prometheus.io/port"])
    assert {"name": "control", "containerPort": scraped} in spec["initContainers"][0]["ports"]
    return spec


def test_the_sidecar_starts_with_flags_that_exist_and_fit_its_pod(pod: dict[str, Any]) -> None:
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["command"] == ["wirebroker", "proxy"]
    flags = build_parser().parse_args(["proxy", *sidecar["args"]])
    assert len(addresses_in(flags.upstream, "--upstream")) == 3
    assert {"name": "control", "containerPort": control_address(flags.control)[1]} in sidecar["ports"]
    (application,) = pod["containers"]
    (bootstrap,) = application["env"]
    assert address_in(bootstrap["value"], "the application") == address_in(flags.listen, "--listen")
    mounts = {each["mountPath"]: each for each in sidecar["volumeMounts"]}
    assert {each["name"] for each in mounts.values()} == {each["name"] for each in pod["volumes"]}
    (trace,) = flags.trace
    for file in (trace, flags.command_config):
        assert str(Path(file).parent) in mounts
    assert "readOnly" not in mounts[str(Path(trace).parent)], "the root is read-only, so the trace needs a volume"


def test_the_volume_holds_all_files_of_the_trace(pod: dict[str, Any]) -> None:
    (sidecar,) = pod["initContainers"]
    rotation = rotation_in(build_parser().parse_args(["proxy", *sidecar["args"]]))
    (limit,) = [each["emptyDir"]["sizeLimit"] for each in pod["volumes"] if "emptyDir" in each]
    assert rotation is not None
    assert rotation.size is not None
    assert rotation.size * (rotation.keep + 1) < int(limit[:-2]) * UNITS[limit[-2:]]


def test_the_client_settings_are_understood(manifest: dict[str, Any], pod: dict[str, Any], tmp_path: Path) -> None:
    text = manifest["ConfigMap"]["data"]["client.properties"]
    assert any(each.get("configMap") == {"name": manifest["ConfigMap"]["metadata"]["name"]} for each in pod["volumes"])
    (tmp_path / "client.properties").write_text(text)
    with pytest.raises(BadConfig, match=r"ssl\.truststore\.location: /etc/kafka-ca/ca\.crt: No such file"):
        read_access(str(tmp_path / "client.properties"))
    assert any(text.count(each["mountPath"]) for each in pod["initContainers"][0]["volumeMounts"] if "ca" in each["mountPath"])


def test_a_sidecar_whose_settings_are_not_mounted_says_so(pod: dict[str, Any]) -> None:
    (sidecar,) = pod["initContainers"]
    with pytest.raises(BadConfig, match=r"--command-config /etc/wirebroker/client\.properties: No such file"):
        upstream_access(build_parser().parse_args(["proxy", *sidecar["args"]]))
