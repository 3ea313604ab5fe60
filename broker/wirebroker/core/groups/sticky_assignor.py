"""The assignor of streams groups, in slices (Kafka's StickyTaskAssignor).

An active task is assigned to the member that had the task or, if that is not possible, to a member that had the task as a
standby task. Otherwise the task is assigned to the process with the least load. Standby tasks are assigned by the same
preferences, but never to a process that already has the task. Quotas keep the members' numbers of tasks about equal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wirebroker.common.slices import SLICE, pauses
from wirebroker.core.groups.streams_member import NOTHING, Some, TaskId, Tasks
from wirebroker.core.java_order import JavaHeap, buckets_for, hash_order, java_hash


class Assignable(NamedTuple):
    """A member that may get tasks. `had` is the member's last target assignment or, in Kafka 4.4 and later, its present tasks.
    `offsets` are the offsets that the member sent.
    """

    member_id: str
    process_id: str
    had: Tasks
    offsets: Some = {}


class Work(NamedTuple):
    """The tasks of a subtopology: their number, and whether they have state."""

    subtopology: str
    tasks: int
    stateful: bool


class _Process:
    """The tasks that have been assigned so far to the members of one process (Kafka's ProcessState)."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[TaskId] = set()
        self._total = 0
        self._by_load: JavaHeap[str] | None = None

    @property
    def load(self) -> float:
        """The number of tasks divided by the number of members."""
        return self._total / len(self.counts)

    def give(self, member_id: str) -> int:
        """Assign a task to a member. Returns the member's number of tasks."""
        self._by_load = None
        return self._count(member_id)

    def _count(self, member_id: str) -> int:
        self._total += 1
        self.counts[member_id] += 1
        return self.counts[member_id]

    def give_to_least_loaded(self) -> tuple[str, int]:
        """Assign a task to a member that has the fewest tasks. Returns the member's id and number of tasks."""
        if len(self.counts) == 1:
            member_id = next(iter(self.counts))
            return member_id, self._count(member_id)
        if self._by_load is None:
            in_order = hash_order(self.counts, java_hash, buckets_for(len(self.counts)))
            self._by_load = JavaHeap(in_order, self.counts.__getitem__)
        member_id = self._by_load.pop()
        count = self._count(member_id)
        self._by_load.push(member_id)
        return member_id, count


class _Quota:
    """A member may get at most this number of tasks, so that the tasks are spread evenly. The number is computed again whenever
    a member has got this many tasks."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.limit = -(-tasks // members)

    def reached(self, count: int) -> None:
        """Register that a member now has `count` tasks."""
        if count == self.limit:
            self._members -= 1
            self._tasks -= count
            self.limit = -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    """An assignment in progress."""

    def __init__(self, members: Sequence[Assignable], work: Sequence[Work], standbys: int, is_newest: bool) -> None:
        self._is_newest = is_newest
        active = sum(each.tasks for each in work)
        self._work, self._standbys = work, standbys
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + sum(each.tasks * standbys for each in work if each.stateful), len(members))
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._was_active: dict[TaskId, str] = {}
        self._was_standby: dict[TaskId, list[str]] = {}
        self._pause = pauses(SLICE)
        self.given: dict[str, tuple[dict[TaskId, int], dict[TaskId, int]]] = {}
        candidates: dict[TaskId, list[tuple[bool, int, str]]] = {}
        self._buckets = 1
        while self._buckets < len(members):
            self._buckets *= 2
        for member_id, process_id, had, offsets in members:
            self._grow()
            process = self._processes.setdefault(process_id, _Process())
            process.counts[member_id] = 0
            self._process_of[member_id] = process
            self._was_active.update(dict.fromkeys(had.active, member_id))
            for task in had.standby:
                candidates.setdefault(task, []).append((False, -offsets.get(task, 0), member_id))
            for task, offset in offsets.items():
                if task not in had.standby:
                    candidates.setdefault(task, []).append((True, -offset, member_id))
            self.given[member_id] = ({}, {})
        for task, found in candidates.items():  # first the members that had the standby task, then by offset
            self._was_standby[task] = [each[-1] for each in sorted(found, key=lambda each: each[:2])]

    def _grow(self) -> None:
        """Grow Kafka's HashMap of processes if it is too full."""
        while len(self._processes) > self._buckets * 3 // 4:
            self._buckets *= 2

    def _by_load(self) -> JavaHeap[_Process]:
        if not self._is_newest:  # since 4.4 `computeIfAbsent` adds the processes, and does not grow the table
            self._grow()
        in_order = hash_order(self._processes, java_hash, self._buckets)
        return JavaHeap((self._processes[each] for each in in_order), lambda process: process.load)

    def _give(self, member_id: str, task: TaskId, count: int, *, active: bool) -> None:
        self.given[member_id][not active][task] = 0
        self._process_of[member_id].tasks.add(task)
        if active:
            self._active_quota.reached(count)
        self._quota.reached(count)

    def _give_back(self, task: TaskId, member_id: str | None, quota: _Quota, *, active: bool) -> bool:
        """Assign the task to this member, which had the task before, if the quota allows that."""
        if member_id is None or self._process_of[member_id].counts[member_id] >= quota.limit:
            return False
        self._give(member_id, task, self._process_of[member_id].give(member_id), active=active)
        return True

    def _tasks(self, work: Iterable[Work]) -> list[TaskId]:
        return [(each.subtopology, index) for each in work for index in range(each.tasks)]

    def assign_active(self) -> Generator[None, Any, None]:
        tasks = sorted(self._tasks(self._work), key=lambda task: task[::-1])
        for find in (self._was_active.get, lambda task: self._least_loaded(self._was_standby.get(task), None)):
            tasks = yield from self._not_given_back(tasks, find)
        heap = self._by_load()
        for task in sorted(tasks):
            yield from self._pause()
            process = heap.pop()
            member_id, count = process.give_to_least_loaded()
            self._give(member_id, task, count, active=True)
            heap.push(process)

    def _not_given_back(self, tasks: list[TaskId], find: Callable[[TaskId], str | None]) -> Generator[None, Any, list[TaskId]]:
        left = []
        for task in tasks:
            yield from self._pause()
            if not self._give_back(task, find(task), self._active_quota, active=True):
                left.append(task)
        return left

    def _least_loaded(self, members: list[str] | None, task: TaskId | None) -> str | None:
        """Returns one of these members, if possible a member with a low load. If `task` is given, the member's process must not
        have this task."""
        if members and task is not None and self._is_newest:
            members = [each for each in members if task not in self._process_of[each].tasks]
        if not members:
            return None
        first = best = members[0]
        for member_id in members[1:]:
            process, chosen = self._process_of[member_id], self._process_of[best]
            less = process.load < chosen.load and process.counts[member_id] < chosen.counts[best]
            if less and (task is None or task not in process.tasks):
                best = member_id
        # Kafka before 4.4 checks here whether the first member's process has the task; it does not check the process of the
        # chosen member.
        return best if task is None or task not in self._process_of[first].tasks else None

    def assign_standby(self) -> Generator[None, Any, None]:
        """Assign the standby tasks. A task gets fewer standby tasks than configured if all processes already have the task."""
        left: list[tuple[TaskId, int]] = []
        tasks = sorted(self._tasks(each for each in self._work if each.stateful), key=lambda task: task[::-1], reverse=True)
        for task in tasks:
            yield from self._pause()
            missing = self._standbys
            while missing and self._give_standby_back(task):
                missing -= 1
            left.append((task, missing))
        heap = self._by_load()
        for task, missing in sorted(left, reverse=True):
            yield from self._pause()
            while missing and self._give_standby(heap, task):
                missing -= 1

    def _give_standby_back(self, task: TaskId) -> bool:
        was_active = self._was_active.get(task)
        if was_active is not None and task in self._process_of[was_active].tasks:
            was_active = None
        if self._give_back(task, was_active, self._quota, active=False):
            return True
        was_standby = self._least_loaded(self._was_standby.get(task), task)
        return self._give_back(task, was_standby, self._quota, active=False)

    def _give_standby(self, heap: JavaHeap[_Process], task: TaskId) -> bool:
        """Assign a standby task to the process with the least load, among the processes that do not have the task yet."""
        seen: list[_Process] = []
        found = False
        while len(heap) and not found:
            seen.append(process := heap.pop())
            if found := task not in process.tasks:
                member_id, count = process.give_to_least_loaded()
                self._give(member_id, task, count, active=False)
        for each in reversed(seen):
            heap.push(each)
        return found


def sticky(
    members: Sequence[Assignable], work: Sequence[Work], standbys: int, *, is_newest: bool
) -> Generator[None, Any, Mapping[str, Tasks]]:
    """Returns the target assignment of each member. `members` are in the order of Kafka's hash table, and `work` is in the
    order of the subtopologies' ids. With `is_newest`, the assignor follows Kafka 4.4: for a standby task, the assignor leaves
    out members whose process already has the task."""
    if not members:
        return {}
    made = _Assignment(members, work, standbys, is_newest)
    yield from made.assign_active()
    if standbys:
        yield from made.assign_standby()
    return {member_id: NOTHING._replace(active=active, standby=standby) for member_id, (active, standby) in made.given.items()}
