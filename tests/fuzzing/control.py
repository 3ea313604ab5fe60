"""Calls the operations of the HTTP control's OpenAPI document, with valid and invalid bodies and parameters.

schemathesis makes the requests and compares the responses with the document.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fuzzing.readers import FAULT_TEXT
from wirebroker.control.endpoint import TOML
from wirebroker.mock import MockKafka

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
THERE = {
    "topic": "orders", "fault": 0, "partition": 0, "node_id": 1, "transactional_id": "till", "group_id": "team",
    "producer_id": 0,
}  # fmt: skip
"""The names of existing things. The key is the parameter in which requests have the name."""
schemathesis.openapi.media_type(TOML, FAULT_TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")))
TIMEOUT = 0.02
"""The longest timeout, in seconds, of a request that waits for records or verdicts."""
LONGEST = 10.0
"""A request without a response after this many seconds is a finding. The limit is high because the machine may be busy."""


class Unfit(AssertionError):
    """Raised if the OpenAPI document does not describe a response, or if the control logged an error or was too slow."""


class _Errors(logging.Handler):
    """Collects the errors that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(logging.Formatter().format(record))


class ControlFuzz:
    """Starts a broker with a control, and calls the control's operations."""

    def __init__(self) -> None:
        self._errors = _Errors()
        logging.getLogger("wirebroker").addHandler(self._errors)
        self.kafka = MockKafka(control=True, brokers=3, topics={"orders": 2})
        self.kafka.start()
        self.url = self.kafka.control_url
        self.schema = schemathesis.openapi.from_url(f"{self.url}/openapi.json")
        self.calls = 0

    def close(self) -> None:
        """Stop the broker."""
        logging.getLogger("wirebroker").removeHandler(self._errors)
        self.kafka.stop()

    def operations(self) -> list[Any]:
        """Returns all operations of the document except /events, whose response never ends."""
        found = [each.ok() for each in self.schema.get_all_operations()]
        return [each for each in found if each.path != "/events"]

    def run(self, operation: Any, number: int, examples: int) -> None:
        """Calls one operation `examples` times, with values that the seed `number` chooses. Raises Unfit, or schemathesis's
        error.
        """
        modes = st.one_of(
            [operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]
        )

        @seed(number)
        @settings(
            max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        )  # fmt: skip
        @given(modes, st.booleans())
        def calls(case: Any, real: bool) -> None:
            self._call(case, real)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisWarning)
            calls()

    def _call(self, case: Any, real: bool) -> None:
        """Calls the operation and compares the response with the document. With `real`, the call names existing things."""
        if real:
            case.path_parameters.update({name: THERE[name] for name in case.path_parameters if name in THERE})
        query = case.query or {}
        if "timeout" in query and _is_long(query["timeout"]):
            query["timeout"] = TIMEOUT
        if "/wait" in case.path:
            query.setdefault("timeout", TIMEOUT)
        if str(query.get("follow", "")).lower() in ("true", "1", "yes", "on"):
            query["follow"] = "false"
        self.calls += 1
        begun = time.monotonic()
        try:
            response = case.call(base_url=self.url, timeout=LONGEST)
        except requests.Timeout:
            raise Unfit(f"{case.method} {case.formatted_path}: no response in {LONGEST} s") from None
        except (requests.RequestException, ValueError):  # the call cannot be sent by HTTP
            return
        self._look(case, time.monotonic() - begun)
        case.validate_response(response, checks=list(CHECKS))

    def _look(self, case: Any, took: float) -> None:
        if self._errors.said:
            said = self._errors.said.pop()
            self._errors.said.clear()
            raise Unfit(f"{case.method} {case.formatted_path} logged: {said[-1500:]}")
        if took > LONGEST:
            raise Unfit(f"{case.method} {case.formatted_path} took {took:.1f} s")


def _is_long(timeout: Any) -> bool:
    try:
        return not float(timeout) <= TIMEOUT
    except (TypeError, ValueError, OverflowError):
        return False


def each_operation(number: int, examples: int, tell: Callable[[str, BaseException | None], None]) -> int:
    """Calls every operation `examples` times, and reports the findings. Returns the number of calls."""
    fuzz = ControlFuzz()
    try:
        for operation in fuzz.operations():
            try:
                fuzz.run(operation, number, examples)
            except (Exception, BaseExceptionGroup) as found:
                tell(operation.label, found)
            else:
                tell(operation.label, None)
        return fuzz.calls
    finally:
        fuzz.close()
