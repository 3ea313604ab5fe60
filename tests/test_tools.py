"""The broker runs if the tools are not installed. If a user asks for a tool, the error names the missing package."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_TOOLS = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "wirebroker_tools":
            raise ModuleNotFoundError(name)

def without(name, find_spec=__import__("importlib.util").util.find_spec):
    return None if name == "wirebroker_tools" else find_spec(name)

sys.meta_path.insert(0, Absent())
__import__("importlib.util").util.find_spec = without
"""
BROKER = """
from urllib.request import urlopen
from wirebroker import MockKafka
from wirebroker.commands.cli import build_parser
from wirebroker.testing import failure_report
from wirebroker.tools import NoTools

with MockKafka(topics={"orders": 1}, control=True) as kafka:
    kafka.produce("orders", value=b"v")
    assert [record.value for record in kafka.records("orders")] == [b"v"]
    assert urlopen(kafka.control_url + "/health").status == 200
    assert b"orders" in urlopen(kafka.control_url + "/topics").read()
    paths = urlopen(kafka.control_url + "/openapi.json").read()
    assert b"/verdicts" in paths and b"/explain" not in paths
    assert "the last records" in kafka._call(failure_report.sections)
    for asked in (kafka.trace.explain, kafka.trace.picture):
        try:
            asked()
        except NoTools as missing:
            assert "wirebroker_tools" in str(missing)
        else:
            raise AssertionError(asked)
helped = build_parser().format_help()
assert "    serve " in helped and "    explain " not in helped and "    demo " not in helped
print("served")
"""


def test_the_broker_runs_without_the_tools() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_TOOLS + BROKER], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("served\n", "")
