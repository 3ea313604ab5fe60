"""Finds the topics that match the regular expressions to which members of consumer groups subscribe."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from kafkawire.coordinator_log import CoordinatorRecord
from wirebroker.common.slices import after, pauses
from wirebroker.core.groups.consumer_group import ConsumerGroup, Resolved
from wirebroker.core.groups.consumer_log import regex_record
from wirebroker.core.groups.consumer_member import ConsumerMember
from wirebroker.core.groups.modern_heartbeats import ModernGroups
from wirebroker.core.patterns import Pattern, PatternError, compile_pattern

REGEX_REFRESH_MIN_MS = 10_000
"""The shortest time in ms between two searches for the topics that match regular expressions."""
REGEX = "regex"
STEPS_AT_ONCE = 500_000
"""The number of steps of a regular expression in one slice; see `Pattern.learn`."""


class Regexes:
    """The regular expressions of all consumer groups."""

    def __init__(self, groups: ModernGroups[ConsumerGroup, ConsumerMember]) -> None:
        self._groups = groups
        self._cluster = groups.registry.cluster

    def due(self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, now: int) -> bool:
        """Tells whether the regular expressions must be matched with the topics once `new` has replaced `old`."""
        if not group.subscriptions.regexes and not new.regex:
            return False
        regexes = group.regexes_with(old, new)
        if not regexes:
            return False
        last = next(iter(group.resolved.values()), None)
        if last is None:
            return True
        longest = self._cluster.configs.integer("group.consumer.regex.refresh.interval.ms")
        return now > last.time + REGEX_REFRESH_MIN_MS and (
            (bool(new.regex) and old.regex != new.regex and not group.subscriptions.regexes[new.regex])
            or len(regexes) != len(group.resolved)
            or last.created < self._cluster.topics_created
            or now > last.time + longest
        )

    def match(self, group: ConsumerGroup, sees: Callable[[str], bool] | None, now: int) -> Generator[None, Any, None]:
        """Match the group's regular expressions with the topics that the requesting client may see.

        As in Kafka's TopicRegexResolver, the matching comes after the heartbeat, so a member learns the matches of its
        expression from a later heartbeat. The matches are used for all members. If the matching takes long, a timer continues
        the matching.
        """
        topics, patterns = self._cluster.topics, _compiled(group.subscriptions.regexes)
        if not all(pattern.learn(topics, STEPS_AT_ONCE) for pattern in patterns.values()):
            group.set_timer(REGEX, "", now + 1, lambda when: self._match_again(group, sees, when))
            return
        matches = {}
        for regex, pattern in patterns.items():
            yield from after(topics)
            matched = yield from _seen(pattern.matching(topics), sees)
            matches[regex] = Resolved(matched, self._cluster.topics_created, now)
        before = {regex: held.topics for regex, held in group.resolved.items()}
        bumps = any(before.get(regex, frozenset()) != resolved.topics for regex, resolved in matches.items())
        facts = self._groups.facts(
            {*group.subscriptions.names}.union(*(before | {each: matches[each].topics for each in matches}).values())
        )
        bumps = bumps or facts != group.facts
        epoch = self._groups.epoch_record(group, facts) if bumps else None
        error = yield from self._groups.registry.log_in_slices(group.group_id, _records_of(group, matches, epoch), now)
        if error:
            return
        for regex, resolved in matches.items():
            group.resolve(regex, resolved)
        if bumps:
            group.epoch += 1
            group.facts, group.facts_version = facts, self._cluster.version
            self._groups.registry.report(group)

    def _match_again(self, group: ConsumerGroup, sees: Callable[[str], bool] | None, now: int) -> None:
        if group.subscriptions.regexes:
            changes = self._groups.changes
            changes.timers.work(changes.alone(group.group_id, self.match(group, sees, now)))


def _seen(topics: frozenset[str], sees: Callable[[str], bool] | None) -> Generator[None, Any, frozenset[str]]:
    if sees is None:
        return topics
    found, pause = set(), pauses()
    for name in topics:
        if sees(name):
            found.add(name)
        yield from pause()
    return frozenset(found)


def _records_of(
    group: ConsumerGroup, matches: Mapping[str, Resolved], epoch: CoordinatorRecord | None
) -> Iterator[CoordinatorRecord | None]:
    """Yields one record for each regular expression, with the topics that match the expression. After these records, yields
    `epoch` (the record of the group's next epoch) unless it is None."""
    for regex, resolved in matches.items():
        yield regex_record(group.group_id, regex, resolved.topics, resolved.created, resolved.time)
        yield from after(resolved.topics)
    if epoch is not None:
        yield epoch


def _compiled(regexes: Iterable[str]) -> dict[str, Pattern]:
    """Returns the compiled patterns. As in Kafka, leaves out expressions that do not compile; the log may contain such
    expressions."""
    found = {}
    for regex in regexes:
        with suppress(PatternError):
            found[regex] = compile_pattern(regex)
    return found
