"""Conservation: when everything is deleted and all clients have left, the engine is as large as a new engine."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fuzzing.script import Finding
from held import held
from kafkawire.errors import ErrorCode
from requesting import plain
from simulation.whole.acts import DAY, Doer
from simulation.whole.done import GROUP, METRICS
from wirebroker.core.purgatory import name_of

if TYPE_CHECKING:
    from simulation.whole.world import World

Held = dict[str, frozenset[str]]
EMPTY: dict[Any, Held] = {}
"""The keys in a new engine's state. They are kept for each combination of the settings on which they depend."""
KEPT = (
    "loggers._levels",
    "cluster.producer_ids",
    "cluster.log_dirs._held",
    "next_",
    ".versions",
    "cluster.tokens._ids",
    "telemetry._s",
    "streams.failures",
)
"""If the path of some state contains one of these texts, the state may stay. It is one of these: levels of loggers; numbers
that only grow; numbers of replicas in log directories, which are 0 in the end; versions after an upgrade; or state that is
removed when tokens, client metrics or streams groups are used next."""
OF_TRANSACTIONS = ("groups.commits.offsets._pending", "groups.commits.offsets._waiting", "transactions.transactions")
"""The paths to the offsets of open transactions, and to the transactions."""
IN_BRACKETS = re.compile(r"\[.*?\]")
NOTHING = frozenset[str]()


def conserved(world: World) -> None:
    """Deletes everything, and checks that no state is left. Raises Finding."""
    setting = world.setting
    where = str(world._configs()), setting.brokers, setting.release, len(world.data_directories), setting.sync
    if where not in EMPTY:
        made = type(world)(replace(setting, warm=True))
        try:
            EMPTY[where] = left_behind(made)
        finally:
            made.close()
    left, empty = left_behind(world), EMPTY[where]
    for way in sorted(left):
        if setting.release and "configs" in way:
            continue  # an upgrade sets min.insync.replicas
        if (world.disk_had_failed or world.following.outliving) and "share_state" in way:
            continue  # as in Kafka, the broker does not repeat a failed deletion of share state
        if world.forgot_transactions and way.startswith(OF_TRANSACTIONS):
            continue  # as in Kafka, a transaction never ends if its coordinator has forgotten it or begins to end it again
        if more := left[way] - empty.get(way, NOTHING):
            raise Finding("left behind: " + IN_BRACKETS.sub("[…]", way), f"{way}: {sorted(more)[:10]}")


def left_behind(world: World) -> Held:
    """Deletes everything, lets everything expire, and returns the keys that the engine still holds."""
    for where in list(world.links):
        world.leave(where)
    _delete_everything(world)
    for days in (1, 30, 30):  # members, transactions, offsets and ids expire
        world.advance(days * DAY)
    _delete_groups(world)
    world.advance(DAY)
    found = {way: _counted(keys) for way, keys in held(world.engine).items() if not any(part in way for part in KEPT)}
    timers = Counter(name_of(timer.action) for _, _, timer in world.engine.timers._heap if timer.action is not None)
    return found | {f"timer {name}": frozenset(map(str, range(count))) for name, count in timers.items()}


def _counted(keys: frozenset[str]) -> frozenset[str]:
    """Replaces the random ids by a text that says how many ids there are."""
    ids = [key for key in keys if key.startswith(("b'", 'b"'))]
    return (keys - {*ids}) | ({f"{len(ids)} ids"} if ids else set())


def _delete_everything(world: World) -> None:
    cluster = world.engine.cluster
    names = [name for name in cluster.topics if not name.startswith("__")]
    world.ask(plain("DeleteTopics", topics=[{"name": name} for name in names], topic_names=names, timeout_ms=1000), 6)
    doer = Doer(world.engine)
    if cluster.acls.ids:
        cluster.alter_acls((), list(cluster.acls.ids))
    cluster.alter_quotas([(entity, key, None) for entity, held in cluster.quotas.limits.items() for key in held])
    users = world.ask(plain("DescribeUserScramCredentials", users=None), 0)
    for user in users.results if users is not None else ():
        for info in user.credential_infos:
            gone = [{"name": user.user, "mechanism": info.mechanism}]
            world.ask(plain("AlterUserScramCredentials", deletions=gone), 0)
    listed = world.ask(plain("ListConfigResources", resource_types=[METRICS, GROUP]), 1)
    for each in listed.config_resources if listed is not None else ():
        resource = {"resource_type": each.resource_type, "resource_name": each.resource_name, "configs": []}
        world.ask(plain("AlterConfigs", resources=[resource]), 2)
    doer.warm()
    world.settle()


def _delete_groups(world: World) -> None:
    cluster = world.engine.cluster
    for group_id in sorted({*world.engine.groups.groups, *world.engine.groups.offsets.groups()}):
        request, node = plain("DeleteGroups", groups_names=[group_id]), cluster.coordinator("group", group_id)
        (result,) = world.ask(request, 2, node).results
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # As in Kafka, this is the first result if a share group's records still name a deleted topic, because the broker
            # could not write the group's log when the topic was deleted.
            world.ask(request, 2, node)
