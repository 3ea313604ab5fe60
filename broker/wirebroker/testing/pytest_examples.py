"""Support for Hypothesis: each example of `@given` gets a broker of its own, like each test.

Hypothesis calls a test function many times with the same fixtures, so its health check refuses function-scoped fixtures. This
module replaces the inner test (Hypothesis allows this) with a function that passes a new broker each time. So the health check
is not needed for the fixture `mock_kafka`. This module switches the check off if the test has no other function-scoped fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any

import pytest

FIXTURE = "mock_kafka"
NewBroker = Callable[[Any], AbstractContextManager[Any]]
"""A function that gets a broker, and starts another broker with the same settings. The other broker runs until the context
ends."""


def prepare(item: pytest.Item, another: NewBroker) -> None:
    """Give each example of a test with `@given` its own broker, if the test uses the fixture `mock_kafka`."""
    function = getattr(item, "obj", None)
    if not getattr(function, "is_hypothesis_test", False) or FIXTURE not in signature(item.function).parameters:  # type: ignore[attr-defined]
        return
    handle = function.hypothesis  # type: ignore[union-attr]
    if not hasattr(handle.inner_test, "_wirebroker"):  # all items of a parametrized test share one function
        handle.inner_test = _with_new_brokers(handle.inner_test, another)
    if _is_alone(item):
        _allow(getattr(function, "__func__", function))


def _with_new_brokers(inner: Callable[..., Any], another: NewBroker) -> Callable[..., Any]:
    @wraps(inner)
    def example(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with another(kwargs[FIXTURE]) as kwargs[FIXTURE]:
            return inner(*args, **kwargs)

    @wraps(inner)
    async def example_in_a_loop(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with another(kwargs[FIXTURE]) as kwargs[FIXTURE]:
            return await inner(*args, **kwargs)

    made: Any = example_in_a_loop if iscoroutinefunction(inner) else example
    made._wirebroker = True
    return made  # type: ignore[no-any-return]


def _is_alone(item: pytest.Item) -> bool:
    """Tells whether `mock_kafka` is the test's only function-scoped fixture. Hypothesis must still warn about other
    fixtures."""
    function = item.function  # type: ignore[attr-defined]
    found = item.session._fixturemanager.getfixtureinfo(node=item, func=function, cls=None)
    definitions = found.name2fixturedefs  # the same call as in Hypothesis: leaves out the arguments of `parametrize`
    used = set(signature(function).parameters) & definitions.keys()
    return not any(definitions[name][-1].scope == "function" for name in used - {FIXTURE})


def _allow(function: Any) -> None:
    from hypothesis import HealthCheck, settings

    now = function._hypothesis_internal_use_settings
    allowed = {*now.suppress_health_check, HealthCheck.function_scoped_fixture}
    function._hypothesis_internal_use_settings = settings(parent=now, suppress_health_check=allowed)
