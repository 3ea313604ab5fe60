"""`wirebroker explore`: finds the faults that break an application.

For each request of the application, the command tries every fault that can happen to the request.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import time
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from wirebroker.audit.findings import plural
from wirebroker.audit.journal import intended_rows
from wirebroker.commands.arguments import write_output
from wirebroker.commands.usage import UsageError, address_in, pair
from wirebroker.common.complaints import complain
from wirebroker.common.suggestions import did_you_mean
from wirebroker.faults.rules import api_named
from wirebroker_tools.campaign.application import Application, CannotRun
from wirebroker_tools.campaign.cases import DamagedResults, Result, Results
from wirebroker_tools.campaign.exploration import Exploration, Known
from wirebroker_tools.campaign.misfortunes import Choice
from wirebroker_tools.campaign.outcomes import OUTCOMES, SILENT_OUTCOMES
from wirebroker_tools.campaign.report import FAULTS, PAGE, junit, sarif, write_cases, write_page
from wirebroker_tools.campaign.show import Screen
from wirebroker_tools.campaign.upstream import Upstream
from wirebroker_tools.campaign.words import duration
from wirebroker_tools.campaign.workers import workers

SUMMARY, RESULTS = "explore.json", "runs.jsonl"


class _Report(TypedDict):
    """The part of explore.json that --baseline reads."""

    runs: list[Known]


def run(options: argparse.Namespace) -> int:
    """Explore. Returns 0 if no fault broke the command silently, 1 if a fault broke it silently, 2 if the exploration
    failed."""
    application: Application | None = None
    before = signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # SIGTERM is handled like Ctrl-C, to end the application's commands: the terminal's signals do not reach them
    try:
        exploration = _exploration(options)
        application = exploration.application
        return _explore(exploration, options)
    except ValueError as wrong:
        complain("explore", wrong)
        return 2
    finally:
        signal.signal(signal.SIGTERM, before)
        if application is not None:
            application.stop()


def _explore(exploration: Exploration, options: argparse.Namespace) -> int:
    out, screen = Path(options.out), Screen()
    known = _baseline(options.baseline)
    results = Results(out / RESULTS, resume=options.resume, shape=Known)
    try:
        exploration.begin()
        screen.plain(exploration)
        found: list[Result] = []
        with workers(jobs=options.jobs, master=options.master) as players, screen.progress(exploration) as progress:
            screen.plan(exploration, players.width())
            task = progress.task_ids[0]
            exploration.keeps = True
            for result in exploration.play(results, players, lambda count: progress.update(task, total=len(exploration.table))):
                found.append(result)
                progress.update(task, completed=len(found))
            progress.update(task, description="replaying the cases that broke it")
            exploration.confirm(found, results, players)
        if exploration.table and not found:
            raise CannotRun(f"--budget {options.budget}: the runs without faults took longer, so no fault was tried")
        if options.master is not None:
            results.write_parquet()
    except KeyboardInterrupt:
        complain("explore", f"interrupted with {plural(len(results.known), 'result')} in {results.path}; --resume continues")
        raise
    finally:
        results.close()
    summary = exploration.summary(found)
    write_cases(exploration, summary["runs"], out)
    findings = exploration.findings(summary["runs"])
    write_page(summary, findings, exploration.application.command, out)
    write_output(out / SUMMARY, json.dumps(summary, indent=1))
    requests = sum(map(len, exploration.places.values()))
    screen.results(summary, found, findings, time.monotonic() - exploration.began, requests)
    screen.say(f"{out / PAGE}: the timeline of each broken run · {out / FAULTS}: serve --faults plays them again")
    failing = [each for each in summary["runs"] if _fails(each, options.fail_on) and not _is_known(each, known)]
    if options.junit is not None:
        write_output(options.junit, junit(summary["runs"], failing))
    if options.sarif is not None:
        write_output(options.sarif, sarif(failing))
    return 1 if failing else 0


def _fails(result: Result, fail_on: list[str]) -> bool:
    return any(name in fail_on for name in result["outcomes"])


def _baseline(path: str | None) -> dict[str, list[str]]:
    """Returns the outcomes of the cases in an earlier explore.json. Raises ValueError, OSError."""
    if path is None:
        return {}
    try:
        report = msgspec.json.decode(Path(path).read_bytes(), type=_Report)
        return {each["id"]: each["outcomes"] for each in report["runs"]}
    except (ValueError, RecursionError) as wrong:
        raise DamagedResults(f"--baseline {path}: this is not an explore.json: {wrong}") from None


def _is_known(result: Result, known: dict[str, list[str]]) -> bool:
    """Tells whether the baseline has all outcomes of this case already."""
    return set(result["outcomes"]) <= set(known.get(result["id"], ()))


def _exploration(options: argparse.Namespace) -> Exploration:
    """Returns the exploration that the flags ask for. Raises UsageError, ValueError, OSError."""
    options.fail_on = _names(options.fail_on) or list(SILENT_OUTCOMES)
    for name in options.fail_on:
        if name not in OUTCOMES:
            raise UsageError(f"--fail-on: there is no outcome {name!r}{did_you_mean(name, OUTCOMES)}")
    settings: dict[str, Any] = {"topics": options.topic, "configs": dict(pair(each, "--config") for each in options.config)}
    if options.profile is not None:
        settings["profile"] = options.profile
    if options.port is not None:
        if options.master is not None:
            raise UsageError("--port: not with --master, which runs several cases at once on each machine")
        settings["port"], options.jobs = options.port, 1
    upstream = _upstream(options, settings)
    application = Application(
        options.words, settings, options.env, options.setup, options.check, options.limit, upstream=upstream,
    )  # fmt: skip
    return Exploration(
        application,
        Choice.of(
            [api_named(each) for each in _names(options.api)],
            _names(options.faults),
            every=options.every,
            proxied=upstream is not None,
        ),
        topics=options.output,
        intended=None if options.intended is None else intended_rows(options.intended),
        depth=options.depth,
        shard=_shard(options.shard),
        budget=None if options.budget is None else duration(options.budget),
    )


def _upstream(options: argparse.Namespace, settings: dict[str, Any]) -> Upstream | None:
    """Returns the cluster of --upstream, and the settings of the proxy in front of this cluster.

    Raises UsageError, ValueError.
    """
    if options.upstream is None:
        return None
    for flag, given in (("--config", options.config), ("--profile", options.profile), ("--master", options.master)):
        if given:
            raise UsageError(f"{flag}: not with --upstream, because all runs then use the same cluster as it is")
    port, options.jobs = settings.get("port", 0), 1
    settings.clear()
    settings.update(listen=f"127.0.0.1:{port}", allow_faults=options.allow_faults)
    host, number = address_in(options.upstream, "--upstream")
    return Upstream(f"{host}:{number}", options.topic)


def _names(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _shard(text: str | None) -> tuple[int, int] | None:
    """`3/10` as numbers. Raises UsageError."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard {text}: expected the number of a part and the number of parts, like 3/10")
    return int(match[1]), int(match[2])
