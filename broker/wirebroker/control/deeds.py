"""The endpoints of deeds, made from their declarations (`wirebroker.deeds.declaring`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, getdoc, signature
from typing import Any, cast, get_type_hints

from msgspec import NODEFAULT, defstruct
from msgspec.structs import asdict

from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.endpoint import Endpoint
from wirebroker.control.endpoints import acls, cluster, quotas, running, state, topics
from wirebroker.control.forms import Form
from wirebroker.control.problems import Problem
from wirebroker.deeds.acls import AclDeeds
from wirebroker.deeds.broker import EngineBroker
from wirebroker.deeds.cluster import ClusterDeeds
from wirebroker.deeds.declaring import BROKER, Called, Deeds, deed, deeds_in, partition_of, topic_named
from wirebroker.deeds.errors import Unfit
from wirebroker.deeds.quotas import QuotaDeeds
from wirebroker.deeds.running import RunningDeeds
from wirebroker.deeds.state import StateDeeds
from wirebroker.deeds.topics import TopicDeeds

HOLDERS: tuple[type[Deeds], ...] = (TopicDeeds, StateDeeds, QuotaDeeds, AclDeeds, ClusterDeeds, RunningDeeds)
SHOWN: dict[str, Callable[..., Any]] = {
    "acls": acls.listed, "brokers": cluster.brokers, "elected": cluster.elected, "health": running.health,
    "leader": cluster.leader, "partition": topics.partition, "quotas": quotas.listed, "topic": topics.created,
    "transaction": state.transaction,
}  # fmt: skip
"""After a deed, one of these functions returns the new state, which is the endpoint's response. The function gets the deed's
arguments, and the deed's result as `result`, by name."""
LONGEST_CHANGE_S = 60.0
FOR_PYTHON = re.compile(r"\s*(?<!\w)(?:Returns|Raises)\s.*?\.(?=\s|$)", re.DOTALL)


def deed_endpoints() -> Iterator[Endpoint]:
    for declared in (each for holder in HOLDERS for each in deeds_in(holder) if each.path):
        problems = {**declared.problems, **({409: declared.impossible} if declared.impossible else {})}
        yield Endpoint(declared.method, declared.path, _handler(declared), declared.status, problems=problems)


def _handler(declared: deed) -> Callable[..., Any]:
    """Returns the handler of a deed's endpoint. The types and the docstring of the handler come from the deed's declaration."""
    function = signature(declared.function, eval_str=True)
    arguments = {_told(each): each for each in [*function.parameters.values()][1:]}
    in_path = re.findall(r"{(\w+)", declared.path)
    fields = [
        (name, each.annotation, NODEFAULT if each.default is each.empty else each.default)
        for name, each in arguments.items()
        if name not in in_path
    ]
    where = "query" if declared.method == "DELETE" else "body"
    response = _form(declared, "Result", [(declared.result, function.return_annotation)]) if declared.result else None
    shown = SHOWN[declared.shows] if declared.shows else None
    takes = signature(shown).parameters if shown is not None else {}
    needed = {name for name, each in takes.items() if each.default is each.empty}
    if lacking := needed - {"controlled", "result", *arguments}:  # else each request would end with status 500
        raise TypeError(f"{declared.function.__qualname__} shows {declared.shows!r}, which needs {', '.join(sorted(lacking))}")

    async def handler(controlled: ControlledBroker, **asked: Any) -> Any:
        values = asked | (asdict(asked.pop(where)) if fields else {})
        _check_places(controlled, in_path, arguments, values)
        try:
            given = {arguments[name].name: value for name, value in values.items()}
            result = declared.function(EngineBroker(controlled.engine), **given)
        except ValueError as refused:
            if declared.impossible and not isinstance(refused, Unfit):
                raise Problem(409, str(refused)) from None
            raise
        controlled.changed()
        if declared.settles:
            controller = controlled.engine.controller
            await controlled.complete("the change", lambda: not controller.busy, LONGEST_CHANGE_S)
        if shown is not None:
            return shown(controlled, **{name: each for name, each in (values | {"result": result}).items() if name in takes})
        return response and response(**{declared.result: result})

    handler.__annotations__ = {
        "controlled": ControlledBroker, "return": response if shown is None else get_type_hints(shown)["return"],
        **{name: arguments[name].annotation for name in in_path},
        **({where: _form(declared, "Arguments", fields)} if fields else {}),
    }  # fmt: skip
    handler.__module__ = declared.function.__module__
    handler.__doc__ = FOR_PYTHON.sub("", getdoc(declared.function) or "")
    return handler


def _told(argument: Parameter) -> str:
    """Returns the name that an argument of a deed has in the control."""
    return next((each.name for each in _metadata(argument) if isinstance(each, Called)), argument.name)


def _metadata(argument: Parameter) -> tuple[Any, ...]:
    return getattr(argument.annotation, "__metadata__", ())


def _form(declared: deed, what: str, fields: Sequence[tuple[str, Any] | tuple[str, Any, Any]]) -> type[Form]:
    name = declared.function.__name__
    title = name.title().replace("_", "") + what
    made: Any = defstruct(title, fields, bases=(Form,), namespace={"__doc__": f"{what} of `{name}`."}, kw_only=True)
    return cast(type[Form], made)


def _check_places(
    controlled: ControlledBroker, in_path: list[str], arguments: Mapping[str, Parameter], values: Mapping[str, Any]
) -> None:
    """Check that the topic and the partition in the path exist, and that the named brokers exist. Raises NoSuchTopic,
    NoSuchPartition and Problem."""
    known = controlled.engine.cluster
    if "topic" in in_path:
        topic = topic_named(known, values["topic"])
        if "partition" in in_path:
            partition_of(topic, values["partition"])
    for name, each in arguments.items():
        if BROKER in _metadata(each) and values[name] not in known.brokers:
            there = ", ".join(map(str, known.brokers))
            raise Problem(404, f"there is no broker {values[name]}; there are {there}", "node_id")
