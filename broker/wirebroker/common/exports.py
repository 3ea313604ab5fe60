"""Reports for other programs: JUnit XML and SARIF 2.1.0."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class Tested(NamedTuple):
    """A test case of a JUnit file; without `problem` it passed."""

    group: str
    name: str
    problem: str = ""
    """the problem in a sentence"""
    kind: str = ""
    """the kind of the problem"""
    details: str = ""
    tag: str = "failure"
    """"failure", or "error" if the test could not be carried out"""
    seconds: float = 0.0


def junit(suite: str, time: str, host: str, cases: Iterable[Tested]) -> str:
    """Returns a JUnit file with one suite. `time` is ISO 8601."""
    made = ET.Element("testsuite", name=suite, timestamp=time[:19], hostname=_xml(host))
    for each in cases:
        case = ET.SubElement(made, "testcase", classname=_xml(each.group), name=_xml(each.name), time=f"{each.seconds:g}")
        if each.problem:
            failure = ET.SubElement(case, each.tag, type=each.kind, message=_xml(each.problem))
            failure.text = _xml(each.details) if each.details else None
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        made.set(name, str(len(list(made.iter(tag)))))
    suites = ET.Element("testsuites")
    suites.append(made)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    """Removes the characters that XML 1.0 does not allow."""
    return "".join(
        letter
        if letter in "\t\n" or " " <= letter <= "\ud7ff" or "\ue000" <= letter <= "\ufffd" or letter > "\uffff"
        else "\ufffd"
        for letter in text
    )


def sarif(
    driver: Mapping[str, Any], invocation: Mapping[str, Any], results: Sequence[Mapping[str, Any]],
    properties: Mapping[str, Any],
) -> str:  # fmt: skip
    """Returns a SARIF log of one run: the tool with its rules, how the tool was called, and the tool's results."""
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results, "properties": properties}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)
