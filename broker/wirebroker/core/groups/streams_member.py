"""A member of a streams group, its tasks, and the steps from its tasks to its target assignment (KIP-1071).

`reconcile` is Kafka's CurrentAssignmentBuilder of streams groups. A member first gives up the tasks that are not in its target
assignment. Then the member moves to the epoch of the target assignment. The member gets each further task as soon as no other
member has that task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from wirebroker.core.groups.modern import LEAVES_FOR_A_WHILE, MemberState, ModernMember

TaskId = tuple[str, int]
"""A task: the id of a subtopology, and the index of a partition."""
Some = Mapping[TaskId, int]
"""Tasks. Each task has the member epoch at which it was assigned, or 0 if this epoch does not matter."""


class Tasks(NamedTuple):
    """The tasks of a member by their kind."""

    active: Some = {}
    standby: Some = {}
    warmup: Some = {}

    def overlaps(self, other: Tasks) -> bool:
        """Tells whether both objects have a task in common, as the same kind of task."""
        return any(one.keys() & two.keys() for one, two in zip(self, other, strict=True))

    def same(self, other: Tasks) -> bool:
        """Tells whether both objects have the same tasks. Epochs are not compared."""
        return all(one.keys() == two.keys() for one, two in zip(self, other, strict=True))


NOTHING = Tasks()


class StreamsMember(ModernMember, frozen=True):
    previous_epoch: int = 0
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    """The host and port at which the member serves interactive queries."""
    tags: Mapping[str, str] = {}
    assigned: Tasks = NOTHING
    revoking: Tasks = NOTHING

    def away(self) -> StreamsMember:
        assigned = self.assigned._replace(active=dict.fromkeys(self.assigned.active, 0))
        return replace(self, epoch=LEAVES_FOR_A_WHILE, assigned=assigned, revoking=NOTHING)

    def owns_all(self, claimed: Sequence[Sequence[tuple[str, Sequence[int]]] | None]) -> bool:
        """Tells whether the member has all tasks that its request lists (`claimed`). Returns False if the request lacks the
        list of one kind of tasks."""
        for held, claims in zip(self.assigned, claimed, strict=True):
            known = {subtopology for subtopology, _ in held}
            if claims is None:
                return False
            for subtopology, partitions in claims:
                if subtopology not in known or any((subtopology, each) not in held for each in partitions):
                    return False
        return True


class Holders(NamedTuple):
    """Three functions. Each function returns the processes that have a given task, according to the group's state."""

    active: Callable[[TaskId], str | None]
    standby: Callable[[TaskId], Collection[str]]
    warmup: Callable[[TaskId], Collection[str]]

    def in_process(self, process: str, member: StreamsMember | None) -> tuple[Callable[[TaskId], bool], ...]:
        """Returns three functions, for active tasks, standby tasks and warmup tasks. Each function tells whether the process
        has the given task as a task of that kind. If `member` is given, the tasks of this member do not count."""
        own: Tasks = NOTHING if member is None else member.assigned
        return (
            lambda task: self.active(task) == process and task not in own.active,
            lambda task: process in self.standby(task) and task not in own.standby,
            lambda task: process in self.warmup(task) and task not in own.warmup,
        )


class _Difference(NamedTuple):
    kept: dict[TaskId, int]
    given_up: dict[TaskId, int]
    new: dict[TaskId, int]
    waits: bool


def reconcile(
    member: StreamsMember, epoch: int, target: Tasks, holders: Holders, claimed: Tasks | None, converts: bool
) -> StreamsMember:
    """Returns the member as it is after one step towards the target assignment of this epoch, or the unchanged member if it
    must wait.

    `converts` tells whether a member can keep a task while the kind of the task changes, as in Kafka 4.4 and later.
    """
    if member.reconciled_to(epoch):
        return member
    current = member.epoch
    if member.state is MemberState.UNREVOKED:
        if claimed is None or claimed.overlaps(member.revoking):
            return member
        current += 1
    here = holders.in_process(member.process_id, member if converts else None)

    def active_is_taken(task: TaskId) -> bool:
        return holders.active(task) is not None or here[1](task) or here[2](task)

    def is_here(task: TaskId) -> bool:
        return any(each(task) for each in here)

    def warmup_is_taken(task: TaskId) -> bool:
        return holders.active(task) == member.process_id or is_here(task)

    taken = (active_is_taken, is_here, warmup_is_taken)
    epochs = (epoch, 0, 0)
    parts = [_difference(*each) for each in zip(member.assigned, target, epochs, taken, strict=True)]
    if converts:
        _convert(member.assigned, target.active, parts, claimed)
    kept, given_up = Tasks(*(part.kept for part in parts)), Tasks(*(part.given_up for part in parts))
    if any(given_up) and (claimed is None or claimed.overlaps(given_up)):
        return member.moved(current, MemberState.UNREVOKED, kept, given_up)
    state = MemberState.UNRELEASED if any(part.waits for part in parts) else MemberState.STABLE
    return member.moved(epoch, state, Tasks(*(part.kept | part.new for part in parts)), NOTHING)


def _convert(held: Tasks, wanted: Some, parts: Sequence[_Difference], claimed: Tasks | None) -> None:
    """Adjust `parts` (the tasks that the member keeps, gives up and gets) for each new task that the member already has as a
    task of another kind."""
    active, *replicas = parts
    standby, warmup = replicas
    for task in held.active:
        if task in standby.new:
            standby.kept[task] = standby.new.pop(task)
    for had, before, after in ((held.standby, standby, warmup), (held.warmup, warmup, standby)):
        for task in had:
            if task in after.new:
                after.kept[task] = after.new.pop(task)
                before.given_up.pop(task, None)
    promoted = [[task for task in had if task in wanted] for had in (held.standby, held.warmup)]
    for tasks, part in zip(promoted, replicas, strict=True):
        for task in tasks:
            part.given_up.pop(task, None)
    given_up = Tasks(*(part.given_up for part in parts))
    waits = any(given_up) and (claimed is None or claimed.overlaps(given_up))
    for tasks, part in zip(promoted, replicas, strict=True):
        for task in tasks:
            if waits or task not in active.new:
                part.kept[task] = 0  # the member keeps the task as the old kind until the task becomes active


def _difference(held: Some, wanted: Some, epoch: int, taken: Callable[[TaskId], bool]) -> _Difference:
    kept = {task: since for task, since in held.items() if task in wanted}
    given_up = {task: since for task, since in held.items() if task not in wanted}
    missing = [task for task in wanted if task not in held]
    new = {task: epoch for task in missing if not taken(task)}
    return _Difference(kept, given_up, new, len(new) < len(missing))
