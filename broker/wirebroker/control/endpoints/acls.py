"""The ACLs of the cluster, as texts."""

from __future__ import annotations

from typing import Annotated

from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.forms import Form, about
from wirebroker.testing import states


class Acls(Form):
    """All ACLs."""

    acls: Annotated[list[str], about("as texts", examples=[["allow User:alice READ TOPIC orders"]])]


def listed(controlled: ControlledBroker) -> Acls:
    """Returns all ACLs as texts."""
    return Acls(states.acls(controlled.engine))
