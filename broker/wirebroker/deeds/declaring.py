"""The declaration of a deed. Everything else about the deed is derived from the declaration.

A deed is a method with the decorator `deed`, in a class that derives from `Deeds`. `MockKafka` inherits from these classes, so
each deed is also a method of MockKafka. Any thread may call this method. A fault calls the same method through
`injection.broker`. The HTTP control makes the deed's endpoint from its path, its signature and its docstring
(`wirebroker.control.deeds`), and the docs describe this endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

from msgspec import Meta

from wirebroker.deeds.errors import NoSuchPartition, NoSuchTopic

if TYPE_CHECKING:
    from wirebroker.core.cluster import Cluster, Topic
    from wirebroker.core.partition import Partition
    from wirebroker.deeds.engine_parts import EngineParts

__tracebackhide__ = True  # pytest shows the caller's line
D = TypeVar("D", bound="Deeds")
P = ParamSpec("P")
R = TypeVar("R")
BROKER = "broker"
NodeId = Annotated[int, BROKER]
"""The id of a broker. For an id that no broker has, the control responds with 404."""
NO_TOPIC = {404: "there is no such topic or partition"}
NO_BROKER = {404: "there is no such broker"}
NO_ID = {404: "there is no such transactional id"}
IMPOSSIBLE = "the change is impossible now; `detail` gives the reason"
UNWRITTEN = {503: "the broker cannot write to its data directory, and nothing has changed"}


def about(description: str, **limits: Any) -> Meta:
    """Returns the description of a field, with msgspec's limits and examples."""
    return Meta(description=description, **limits)


@dataclass(frozen=True)
class Called:
    """The name of an argument in the control, if this differs from its name in Python."""

    name: str


class Deeds:
    """The base class of the classes whose methods are deeds. An instance stands for the broker that the deeds change."""

    @property
    def _engine(self) -> EngineParts:
        """The engine to change. Only a running deed may use the engine."""
        raise NotImplementedError

    @property
    def _now(self) -> int:
        return self._engine.now

    def _topic(self, name: str) -> Topic:
        return topic_named(self._engine.cluster, name)

    def _partition(self, topic: str, index: int) -> Partition:
        return partition_of(self._topic(topic), index)

    def _write_down(self) -> None:
        write_down(self._engine.cluster, self._now)

    def _perform(self, act: Callable[[], R], *, settles: bool) -> R:
        """Run a deed in the engine's thread, and perform the engine's effects. With `settles`, complete the elections that the
        deed begins."""
        raise NotImplementedError


@dataclass
class deed:
    """Declares a deed, with an endpoint if `path` is given.

    The arguments that are not in the path are fields of the endpoint's body, or of its query if the HTTP method is DELETE.
    `about` describes these arguments. Sentences in the docstring that begin with Returns or Raises are for Python only.

    `result` is the name of the field in which the endpoint returns the result. With `shows`, the endpoint instead returns the
    state with this name in `wirebroker.control.deeds.SHOWN`. The keys of `problems` are the statuses that report a problem, and
    the values are the reasons. If the deed raises a ValueError that is not an `Unfit`, the endpoint responds with the status
    422, or with 409 if `impossible` is given. With `settles`, the elections that the deed begins are done before the caller
    continues.
    """

    method: str = ""
    path: str = ""
    _: KW_ONLY
    status: int = 200
    result: str = ""
    shows: str = ""
    problems: Mapping[int, str] = field(default_factory=dict)
    impossible: str = ""
    settles: bool = False
    function: Callable[..., Any] = field(init=False)

    def __call__(self, function: Callable[Concatenate[D, P], R]) -> Callable[Concatenate[D, P], R]:
        self.function = function

        @wraps(function)
        def perform(doer: D, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return doer._perform(lambda: function(doer, *args, **kwargs), settles=self.settles)

        perform.deed = self  # type: ignore[attr-defined]
        return perform


def deeds_in(holder: type[Deeds]) -> Iterator[deed]:
    """Yields the deeds of a class, in the order of their declarations."""
    for each in vars(holder).values():
        if isinstance(found := getattr(each, "deed", None), deed):
            yield found


def topic_named(cluster: Cluster, name: str) -> Topic:
    """Returns the topic. Raises NoSuchTopic."""
    try:
        return cluster.topics[name]
    except KeyError:
        raise NoSuchTopic(name, cluster.topics) from None


def partition_of(topic: Topic, index: int) -> Partition:
    """Returns the topic's partition. Raises NoSuchPartition."""
    if (found := topic.partition(index)) is None:
        last = len(topic.partitions) - 1
        raise NoSuchPartition("partition", f"the topic {topic.name!r} has no partition {index}, only 0 to {last}")
    return found


def write_down(cluster: Cluster, now: int) -> None:
    """Write the controller's decisions to the data directory. Raises OSError."""
    if (failed := cluster.decisions.write_down(now)) is not None:
        raise failed
