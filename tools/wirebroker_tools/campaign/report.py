"""Writes the results to files: fault files, tests, a page with timelines, JUnit XML and SARIF."""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafkawire.printable import printable
from wirebroker.audit.findings import plural
from wirebroker.commands.arguments import write_output
from wirebroker.common import exports, page
from wirebroker.common.version import __version__
from wirebroker.faults.files import dump, read_rule
from wirebroker.trace.layout import line
from wirebroker.trace.rows import FaultRow, ProduceRow, Row, row_from_json
from wirebroker_tools.campaign.cases import Result
from wirebroker_tools.campaign.exploration import Exploration, trace_file
from wirebroker_tools.campaign.findings import Finding
from wirebroker_tools.campaign.misfortunes import brokers_for
from wirebroker_tools.campaign.outcomes import SILENT_OUTCOMES
from wirebroker_tools.campaign.reproductions import Reproduction, comparable, language_of
from wirebroker_tools.campaign.upstream import Upstream
from wirebroker_tools.campaign.words import NAMES, fault_in_words, faults_of, place_of
from wirebroker_tools.pictures.drawing import Wish, draw
from wirebroker_tools.pictures.marks import STYLE, element

FAULTS, TESTS, PAGE = "faults", "tests", "index.html"
CONTROL = 9099
"""The report has commands that play a case again. In these commands, the control has this port."""
BEFORE, AFTER = 6, 14
"""The page shows this many rows of the trace before and after a fault."""
DRAWN_BEFORE, DRAWN_AFTER = 20, 80
"""The sequence diagram shows this many rows of the trace before and after a fault."""
PICTURE_WIDTH = 900
WIDE = "style='white-space:pre;overflow-x:auto'"
MEANINGS = {
    "lost": "a record is missing, and the exit code is 0", "doubled": "a record is stored again, and the exit code is 0",
    "reordered": "records are out of order, and the exit code is 0",
    "open_transaction": "a transaction is open, and the exit code is 0", "hung": "the command does not end",
    "storm": "the command sends requests without a pause",
    "check_failed": "the check fails, and the exit code is 0; or the test's own comparison of the records fails",
    "failed": "the command fails, and says so",
}  # fmt: skip


def write_cases(exploration: Exploration, results: Iterable[Result], folder: Path) -> None:
    """For each case that broke the application, write a fault file and a test. Note the fault file in the case's result."""
    upstream = exploration.application.upstream
    numbers: Counter[str] = Counter()
    for result in results:
        outcome = next((name for name in result["outcomes"] if name in SILENT_OUTCOMES), None)
        if outcome is None:
            continue
        numbers[outcome] += 1
        name = f"{outcome}-{numbers[outcome]}"
        result["file"] = f"{FAULTS}/{name}.toml"
        for file, text in ((result["file"], _fault_file(result, upstream)), _test(exploration, result, name)):
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            write_output(path, text)


def _fault_file(result: Result, upstream: Upstream | None) -> str:
    """Returns the text of a case's fault file. The text begins with the commands that play the case again."""
    count = brokers_for(faults_of(result))
    broker = f"serve{f' --brokers {count}' if count > 1 else ''}"
    if upstream is not None:
        broker = f"proxy --upstream {upstream.address}"
    lines = [
        _headline(result), f"wirebroker {broker} --faults {result['file']}", f"or wirebroker {broker} --control {CONTROL} and",
        *(f"curl localhost:{CONTROL}/faults -d {shlex.quote(json.dumps(words))}" for words in faults_of(result)),
    ]  # fmt: skip
    return "".join(f"# {line}\n" for line in lines) + dump(map(read_rule, faults_of(result)), 0)


def _headline(result: Result) -> str:
    return printable(f"{place_of(result)}: {fault_in_words(result)} … {result['sentence']}")


def _test(exploration: Exploration, result: Result, name: str) -> tuple[str, str]:
    """Returns the file name and the text of a test. The test is in the command's language, and fails until the application is
    fixed.
    """
    language = language_of(exploration.application.command)
    if language is None or exploration.application.upstream is not None:
        return f"{TESTS}/test_{name.replace('-', '_')}.py", _python(exploration, result, name)
    return f"{TESTS}/{language.file(name)}", language.test(_reproduction(exploration, result, name))


def _reproduction(exploration: Exploration, result: Result, name: str) -> Reproduction:
    plain, made = exploration.plain.stored, list(exploration.application.settings.get("topics") or ())
    named = {topic.partition(":")[0] for topic in made}
    records = {
        topic: found for topic, expected in exploration.expected.topics.items()
        if expected.whole and (found := comparable((each.key, each.value) for each in plain.get(topic, ())))
    }  # fmt: skip
    topics = [*made, *(topic for topic in plain if topic not in named)]
    command, faults = shlex.join(exploration.application.command), faults_of(result)
    return Reproduction(_headline(result), name, command, faults, brokers_for(faults), topics, records)


def _python(exploration: Exploration, result: Result, name: str) -> str:
    application = exploration.application
    upstream = application.upstream
    rules = ", ".join(_call(words) for words in faults_of(result))
    given = {
        "topics": (application.settings if upstream is None else {"topics": upstream.topics}).get("topics"),
        "configs": application.settings.get("configs"),
        "setup": application.setup, "check": application.check, "output": list(exploration.topics),
        "variables": list(application.variables), "limit": application.limit, "cwd": os.getcwd(),
        "upstream": upstream and upstream.address,
    }  # fmt: skip
    words = "".join(f"        {word}={value!r},\n" for word, value in given.items() if value)
    return (
        f'"""{_headline(result).replace(chr(92), "/").replace(chr(34), chr(39))}"""\n\n'
        "from wirebroker import faults\nfrom wirebroker_tools.campaign.survival import assert_survives\n\n\n"
        f"def test_{name.replace('-', '_')}() -> None:\n    assert_survives(\n        {list(application.command)!r},\n"
        f"        [{rules}],\n{words}    )\n"
    )


def _call(words: Mapping[str, Any]) -> str:
    options = ", ".join(f"{word}={value!r}" for word, value in words.items() if word != "kind")
    return f"faults.{words['kind']}({options})"


# The page


def write_page(summary: Mapping[str, Any], findings: Iterable[Finding], command: Sequence[str], folder: Path) -> None:
    """Write the page with each way in which the application broke."""
    counts, plain = summary["summary"], summary["plain"]
    about = f"{datetime.now():%Y-%m-%d %H:%M}, <code>{page.text(' '.join(command))}</code>, with wirebroker {__version__}"
    parts = [page.head("What breaks it?", "What breaks this application?", about)]
    parts.append(f"<style>{STYLE}</style>")
    broken = [f"{counts[name]} {name}" for name in SILENT_OUTCOMES if counts[name]]
    verdict = f"{plural(counts['runs'], 'fault')}: {', '.join(broken) or 'nothing broke silently'}."
    parts.append(f"<p class='verdict {'certain' if broken else ''}'>{page.text(verdict)}</p>")
    parts += [f"<p class='info'>{page.text(each)}</p>" for each in plain["notices"]]
    requests = ", ".join(f"{count} {api}" for api, count in plain["requests"].items())
    parts.append(f"<p>Without faults: {page.text(requests)}; {plain['seconds']} s.</p>")
    for finding in findings:
        parts += _section(finding, folder)
    rest = {name: count for name, count in counts.items() if name != "runs" and count}
    parts += ["<h2>All outcomes</h2>", page.table(["outcome", "runs"], [[name, f"{count:,}"] for name, count in rest.items()])]
    write_output(folder / PAGE, "\n".join([*parts, "</body></html>\n"]))


def _section(finding: Finding, folder: Path) -> Iterator[str]:
    found = finding.ways
    yield f"<h2 class='certain'>{NAMES[finding.outcome]}: {plural(len(found), 'way')}</h2>"
    yield f"<p class='about'>{MEANINGS[finding.outcome]}</p><p>{page.text(finding.sentence)}</p>"
    yield f"<p>Usual cause: {page.text(finding.cause)}.<br>Look at: {page.text(finding.look_at)}.</p>"
    for way, same in found:
        first = same[0]
        yield f"<details><summary>{page.text(way)}</summary>"
        yield f"<pre {WIDE}>{page.text((folder / first['file']).read_text(encoding='utf-8'))}</pre>"
        rows = list(_rows(folder, first))
        yield from _drawn(rows)
        yield f"<pre {WIDE}>{page.text(chr(10).join(_around_fault(rows)))}</pre></details>"


def _drawn(rows: Sequence[Row]) -> Iterator[str]:
    """Draws the requests and responses around the first fault, and the log of its partition."""
    at = next((place for place, row in enumerate(rows) if isinstance(row, FaultRow)), 0)
    numbered = list(enumerate(rows, 1))
    if rows:
        around = Wish(first=max(at - DRAWN_BEFORE, 1), last=at + DRAWN_AFTER, width=PICTURE_WIDTH)
        yield f"<div>{element(draw('sequence', numbered, around))}</div>"
    if any(isinstance(row, ProduceRow) for row in rows):
        yield f"<div>{element(draw('log', numbered, Wish(width=PICTURE_WIDTH)))}</div>"


def _rows(folder: Path, result: Result) -> Iterator[Row]:
    """Yields the rows of a run's trace, or nothing if the trace was not kept."""
    path = folder / trace_file(result["id"])
    if path.exists():
        with path.open(encoding="utf-8") as file:
            yield from (row_from_json(json.loads(text)) for text in file)


def _around_fault(rows: Sequence[Row]) -> Iterator[str]:
    """Yields the lines of the trace before and after the first fault."""
    at = next((place for place, row in enumerate(rows) if isinstance(row, FaultRow)), 0)
    yield from (line(row) for row in rows[max(at - BEFORE, 0) : at + AFTER])


# Other programs


def junit(results: Iterable[Result], failing: Sequence[Result]) -> str:
    """Returns JUnit XML with a test case for each run."""
    ids = {each["id"] for each in failing}
    cases = [
        exports.Tested(
            place_of(each), f"{fault_in_words(each)} (nth {each['nth']})",
            f"{', '.join(each['outcomes'])}: {each['sentence']}" if each["id"] in ids else "", each["outcomes"][0],
            seconds=each["seconds"],
        )
        for each in results
    ]  # fmt: skip
    return exports.junit("wirebroker explore", _now(), platform.node(), cases)


def sarif(failing: Iterable[Result]) -> str:
    """Returns SARIF with a result for each run that failed."""
    rules = [
        {"id": name, "shortDescription": {"text": words}, "defaultConfiguration": {"level": "error"}}
        for name, words in MEANINGS.items()
    ]
    found = [_sarif_result(each) for each in failing]
    driver = {"name": "wirebroker explore", "version": __version__, "rules": rules}
    invocation = {"executionSuccessful": True, "startTimeUtc": _now(), "machine": platform.node()}
    return exports.sarif(driver, invocation, found, {"findings": len(found)})


def _sarif_result(result: Result) -> dict[str, Any]:
    kind = next(name for name in result["outcomes"] if name in MEANINGS)
    return {
        "ruleId": kind, "ruleIndex": list(MEANINGS).index(kind), "level": "error",
        "message": {"text": _headline(result)},
        "locations": [{
            "physicalLocation": {"artifactLocation": {"uri": result["file"] or "explore.json"}},
            "logicalLocations": [{"fullyQualifiedName": f"{place_of(result)}@{result['nth']}", "kind": "resource"}],
        }],
        "partialFingerprints": {"case/v1": result["id"]}, "properties": {"fault": result["fault"]},
    }  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).isoformat()
