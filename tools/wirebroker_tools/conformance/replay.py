"""Replaying a scenario on a broker."""

from __future__ import annotations

import time

from kafkawire.errors import EncodeError, ProtocolError
from wirebroker.client.wire import ConnectionClosed, NoResponse
from wirebroker_tools.conformance.feature_steps import FEATURE_OPERATIONS
from wirebroker_tools.conformance.log_dir_steps import LOG_DIR_OPERATIONS
from wirebroker_tools.conformance.quota_steps import QUOTA_OPERATIONS
from wirebroker_tools.conformance.readiness import prepare
from wirebroker_tools.conformance.recording import Difference, Json, Scenario, compare
from wirebroker_tools.conformance.run import RETRIES, ReplayTarget, Run
from wirebroker_tools.conformance.steps import OPERATIONS
from wirebroker_tools.conformance.token_steps import TOKEN_OPERATIONS
from wirebroker_tools.conformance.versions import VersionMode

SETTINGS_APIS = ("AlterConfigs", "IncrementalAlterConfigs")
APPLIED_LATER = ("alter_quotas", "alter_scram")
ALL_OPERATIONS = OPERATIONS | QUOTA_OPERATIONS | TOKEN_OPERATIONS | FEATURE_OPERATIONS | LOG_DIR_OPERATIONS


def replay(scenario: Scenario, broker: ReplayTarget, versions: VersionMode = "named") -> tuple[list[Json], list[Difference]]:
    """Replay one scenario. Returns what was observed in each step, and the differences from the recording."""
    observed = play(Run(scenario, broker, versions))
    return observed, compare(scenario, observed)


def play(run: Run, pause: float = 0) -> list[Json]:
    """Do the steps of a scenario and close the connections. Returns the observation of each step.

    `pause` is the time in seconds to wait after a change of settings, quotas or credentials, because a busy Kafka responds
    before it applies the change.
    """
    observed = []
    try:
        prepare(run)
        for index, row in enumerate(run.scenario.steps):
            observed.append(observe(run, index, row["step"]))
            if pause and (row["step"].get("api") in SETTINGS_APIS or row["step"]["op"] in APPLIED_LATER):
                run.broker.sleep(pause)
        return observed
    finally:
        run.close()


def observe(run: Run, index: int, step: Json) -> Json:
    """Do one step. Returns its observation."""
    run.index = index
    try:
        step = run.resolve(step)
    except KeyError as missing:
        return {"undone": f"no earlier step returned {missing}"}
    try:
        observed = ALL_OPERATIONS[step["op"]](run, step)
    except ConnectionClosed:
        return {"conn": "closed"}
    except NoResponse:
        return {"conn": "timeout"}
    except ProtocolError as wrong:
        return {"conn": "unreadable", "text": str(wrong)}
    except (LookupError, EncodeError) as missing:  # the response of the release lacks a field that the operation needs
        return {"undone": type(missing).__name__, "text": str(missing)}
    if "as" in step:
        run.results[step["as"]] = observed
    return observed


class RemoteBroker:
    """A broker at an address. The replay can neither move the broker's clock nor restart the broker."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self.addresses = {"PLAINTEXT": self.address}
        self.retries = RETRIES

    def now(self) -> int:
        """Returns the time of this machine's clock, in ms since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def restart(self, mode: str) -> None:
        """Raises NotImplementedError, because a broker at an address cannot be restarted."""
        raise NotImplementedError("the replay cannot restart a broker at an address")
