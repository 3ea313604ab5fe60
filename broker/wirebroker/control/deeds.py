"""The endpoints of deeds, made from their declarations (`wirebroker.deeds.declaring`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, getdoc, signature
from typing import Any, NamedTuple, cast, get_type_hints

from msgspec import NODEFAULT, defstruct
from msgspec.structs import asdict

from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.endpoint import Endpoint
from wirebroker.control.endpoints import cluster, quotas, running, state, topics
from wirebroker.control.forms import Form
from wirebroker.control.problems import Problem
from wirebroker.deeds.broker import EngineBroker
from wirebroker.deeds.cluster import ClusterDeeds
from wirebroker.deeds.declaring import BROKER, Called, Deed, Deeds, Shown, deeds_in, partition_of, topic_named
from wirebroker.deeds.errors import Unfit
from wirebroker.deeds.quotas import QuotaDeeds
from wirebroker.deeds.running import RunningDeeds
from wirebroker.deeds.state import StateDeeds
from wirebroker.deeds.topics import TopicDeeds

HOLDERS: tuple[type[Deeds], ...] = (TopicDeeds, StateDeeds, QuotaDeeds, ClusterDeeds, RunningDeeds)
SHOWN: dict[Shown, Callable[..., Any]] = {
    "brokers": cluster.brokers, "elected": cluster.elected, "health": running.health, "leader": cluster.leader,
    "partition": topics.partition, "quotas": quotas.listed, "topic": topics.created, "transaction": state.transaction,
}  # fmt: skip
"""The states that endpoints return after a deed. The functions get the deed's arguments and its `result` by name."""
LONGEST_CHANGE_S = 60.0
FOR_PYTHON = re.compile(r"\s*(?<!\w)(?:Returns|Raises)\s.*?\.(?=\s|$)", re.DOTALL)


class Argument(NamedTuple):
    """An argument of a deed: its name in Python, its type and its default."""

    name: str
    hint: Any
    default: Any


def deed_endpoints() -> Iterator[Endpoint]:
    """Yields the endpoint of each deed."""
    for deed in (each for holder in HOLDERS for each in deeds_in(holder)):
        problems = {**deed.problems, **({409: deed.impossible} if deed.impossible else {})}
        yield Endpoint(deed.method, deed.path, _handler(deed), deed.status, problems=problems)


def _handler(deed: Deed) -> Callable[..., Any]:
    """Returns a function that does the deed, with the types and the docstring of an endpoint's handler."""
    hints = get_type_hints(deed.function, include_extras=True)
    arguments = _arguments(deed.function, hints)
    in_path = re.findall(r"{(\w+)", deed.path)
    in_form = {name: each for name, each in arguments.items() if name not in in_path}
    where = "query" if deed.method == "DELETE" else "body"
    shown = SHOWN[deed.shows] if deed.shows else None
    response = _form(deed, "Result", {deed.result: Argument("", hints["return"], NODEFAULT)}) if deed.result else None

    async def handler(controlled: ControlledBroker, **asked: Any) -> Any:
        values = asked | (asdict(asked.pop(where)) if in_form else {})
        _check_places(controlled, in_path, arguments, values)
        try:
            result = deed.function(EngineBroker(controlled.engine), **{arguments[name].name: values[name] for name in values})
        except ValueError as refused:
            if deed.impossible and not isinstance(refused, Unfit):
                raise Problem(409, str(refused)) from None
            raise
        controlled.changed()
        if deed.settles:
            await controlled.until(lambda: not controlled.engine.controller.busy, LONGEST_CHANGE_S)
        if shown is not None:
            return shown(controlled, **{name: each for name, each in (values | {"result": result}).items() if name in takes})
        return response and response(**{deed.result: result})

    takes = signature(shown).parameters if shown is not None else {}
    handler.__annotations__ = {
        "controlled": ControlledBroker, "return": response if shown is None else get_type_hints(shown)["return"],
        **{name: arguments[name].hint for name in in_path}, **({where: _form(deed, "Arguments", in_form)} if in_form else {}),
    }  # fmt: skip
    handler.__module__, handler.__doc__ = deed.function.__module__, FOR_PYTHON.sub("", getdoc(deed.function) or "")
    return handler


def _arguments(function: Callable[..., Any], hints: Mapping[str, Any]) -> dict[str, Argument]:
    """Returns the arguments of a deed by their names in the control."""
    found = {}
    for name, each in [*signature(function).parameters.items()][1:]:
        told = next((word.name for word in getattr(hints[name], "__metadata__", ()) if isinstance(word, Called)), name)
        found[told] = Argument(name, hints[name], NODEFAULT if each.default is Parameter.empty else each.default)
    return found


def _form(deed: Deed, what: str, arguments: Mapping[str, Argument]) -> type[Form]:
    """Returns a form with these arguments as fields."""
    name = deed.function.__name__
    about = f"{what} of `{name}`."
    fields = [(field, each.hint, each.default) for field, each in arguments.items()]
    title = name.title().replace("_", "") + what
    made: Any = defstruct(title, fields, bases=(Form,), namespace={"__doc__": about}, kw_only=True)
    return cast(type[Form], made)


def _check_places(
    controlled: ControlledBroker, in_path: list[str], arguments: Mapping[str, Argument], values: Mapping[str, Any]
) -> None:  # fmt: skip
    """Check that the topic and the partition in the path exist, and the named brokers. Raises NoSuchTopic, NoSuchPartition and
    Problem."""
    known = controlled.engine.cluster
    if "topic" in in_path:
        topic = topic_named(known, values["topic"])
        if "partition" in in_path:
            partition_of(topic, values["partition"])
    for name, each in arguments.items():
        if BROKER in getattr(each.hint, "__metadata__", ()) and values[name] not in known.brokers:
            there = ", ".join(map(str, known.brokers))
            raise Problem(404, f"there is no broker {values[name]}; there are {there}", "node_id")
