"""One case of an exploration as a test, which fails until the application is fixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wirebroker.faults.rules import Rule
from wirebroker_tools.campaign.application import Application
from wirebroker_tools.campaign.exploration import Exploration
from wirebroker_tools.campaign.outcomes import SILENT_OUTCOMES
from wirebroker_tools.campaign.upstream import Upstream

__tracebackhide__ = True  # pytest shows the line of the caller


def assert_survives(
    command: Sequence[str], faults: Rule | Iterable[Rule], *, topics: Sequence[str] = (),
    configs: Mapping[str, str] | None = None, setup: str | None = None, check: str | None = None,
    output: Sequence[str] = (), variables: Sequence[str] = (), limit: float = 180.0, cwd: str | None = None,
    upstream: str | None = None,
) -> None:  # fmt: skip
    """Run a command twice without faults, then once with these faults. Raises AssertionError if the command breaks silently, or
    if no fault has fired.

    The arguments have the meaning of the flags of `wirebroker explore`. Raises CannotRun if the command fails without faults.
    """
    settings: dict[str, Any] = {"topics": list(topics), "configs": dict(configs or {})}
    cluster = None
    if upstream is not None:
        cluster, settings = Upstream(upstream, topics), {"allow_faults": True}
    application = Application(command, settings, variables, setup, check, limit, cwd, cluster)
    rules = [faults] if isinstance(faults, Rule) else list(faults)
    try:
        exploration = Exploration(application, topics=output)
        exploration.begin()
        run = exploration.run([rule.described() for rule in rules])
        case: dict[str, Any] = {"id": "", "api": "", "nth": 0, "fault": rules[0].described()}
        result = exploration.result(case, run)
    finally:
        application.stop()
    broken = [name for name in result["outcomes"] if name in SILENT_OUTCOMES]
    if broken:
        raise AssertionError(f"{', '.join(broken)}: {result['sentence']}")
    if not run.fired:
        raise AssertionError(f"no request met {rules[0]}")
