"""Fixtures and settings of all tests."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

os.environ.setdefault("WIREBROKER_EXIT_WITH_PARENT", "1")
# How long an example takes says more about the machine than about the code.
settings.register_profile("wirebroker", deadline=None)
settings.load_profile("wirebroker")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from looking through thousands of tests and what they import, now and each time it runs."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
