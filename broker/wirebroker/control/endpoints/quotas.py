"""The quotas of clients."""

from __future__ import annotations

from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.forms import Form
from wirebroker.testing import states
from wirebroker.testing.states import Quota


class Quotas(Form):
    """All quotas."""

    quotas: list[Quota]


def listed(controlled: ControlledBroker) -> Quotas:
    """Returns the quotas of all clients."""
    return Quotas(states.quotas(controlled.engine))
