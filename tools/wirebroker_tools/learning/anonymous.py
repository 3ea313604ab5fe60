"""Hashes the names of a learned cluster.

Within a file, a name has the same hash everywhere. For example, a topic and the ACLs for this topic contain the same hash of
the topic's name. The key of the hash is not kept. So the hashes in two files cannot be compared with each other, and nobody can
find a name by guessing names and hashing them. If a name begins with the prefix of a prefixed ACL, the hash of the name begins
with the hash of the prefix. Apart from this, no hash is a prefix of another hash.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2s

import msgspec

from wirebroker.core.cluster import INTERNAL_TOPICS
from wirebroker.core.setting_definitions import BROKER_SETTINGS, TOPIC_SETTINGS
from wirebroker.testing.learned_file import DEFAULT, Acl, Broker, Group, Learned, Quota, Settings, Topic, User

KINDS = {"TOPIC": "topic", "GROUP": "group", "TRANSACTIONAL_ID": "transaction", "DELEGATION_TOKEN": "token"}
"""For each resource type of ACLs, the word with which a hash begins."""
ENTITIES = {"user": "user", "client-id": "client"}
WELL_KNOWN = frozenset(
    {
        "", "consumer", "connect", "share", "streams", "sr", "range", "roundrobin", "sticky", "cooperative-sticky", "stream",
        "uniform", "simple", "default", "eager", "compatible", "sessioned",
    }
)  # fmt: skip
"""Group types and assignors that are not hashed, because they reveal nothing about an application."""
SUPER_USERS = "super.users"
TELLS_NOTHING = frozenset({"authorizer.class.name", "replica.selector.class", "sasl.enabled.mechanisms"})
"""Settings whose values are kept even if they are free text. Any other setting is kept only if its value is a number, true or
false, or one of a fixed list of words.
"""
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?|true|false")


class Hashed:
    """Computes the hashes of a cluster's names. `key` is 16 random bytes."""

    def __init__(self, learned: Learned, key: bytes) -> None:
        self._key = key
        self._prefixes: dict[str, list[str]] = defaultdict(list)
        for acl in learned.acls:
            if acl.pattern == "PREFIXED" and acl.resource in KINDS:
                self._prefixes[KINDS[acl.resource]].append(acl.name)
        for held in self._prefixes.values():
            held[:] = sorted(set(held), key=len)
        self.left_out: set[str] = set()

    def name(self, kind: str, name: str, *, prefix: bool = False) -> str:
        """Returns the hash of a name. If `prefix` is set, `name` is the prefix of a prefixed ACL."""
        parts = [self._hash(f"{kind}-", each) for each in self._prefixes.get(kind, ()) if name.startswith(each)]
        if not prefix:
            parts.append(self._hash(kind, name))
        return f"{kind}-{'-'.join(parts)}" + ("-" if prefix else "")

    def _hash(self, kind: str, name: str) -> str:
        return blake2s(f"{kind} {name}".encode(), key=self._key, digest_size=6).hexdigest()

    def principal(self, principal: str) -> str:
        """Returns the principal with a hash in place of its name. For example, returns `User:user-1b2c…` for `User:alice`."""
        kind, colon, name = principal.partition(":")
        return principal if name in ("*", "ANONYMOUS") or not colon else f"{kind}:{self.name('user', name)}"

    def host(self, host: str) -> str:
        """Returns an IP address that stands for the host. The address is derived from the hash of the host."""
        if host in ("*", DEFAULT):
            return host
        return "10." + ".".join(map(str, bytes.fromhex(self._hash("host", host))[:3]))

    def topic(self, name: str) -> str:
        """Returns the hash of a topic's name. The names of internal topics are not hashed."""
        return name if name in INTERNAL_TOPICS else self.name("topic", name)

    def settings(self, settings: Mapping[str, str]) -> Settings:
        """Returns the settings that reveal no name."""
        kept: Settings = {}
        for name, value in settings.items():
            known = BROKER_SETTINGS.get(name) or TOPIC_SETTINGS.get(name)
            if name == SUPER_USERS:
                kept[name] = ";".join(self.principal(each.strip()) for each in value.split(";"))
            elif _NUMBER.fullmatch(value) or name in TELLS_NOTHING or (known and known.valid not in ("-", "nonempty")):
                kept[name] = value
            else:
                self.left_out.add(name)
        return kept

    def word(self, kind: str, word: str) -> str:
        """Returns the hash of a word, or the word itself if it is in WELL_KNOWN."""
        return word if word in WELL_KNOWN else self.name(kind, word)


def anonymous(learned: Learned, key: bytes) -> Learned:
    """Returns a copy of the cluster with hashed names. The caller must not keep the key."""
    hashed = Hashed(learned, key)
    made = msgspec.structs.replace(
        learned,
        anonymous=True,
        settings=hashed.settings(learned.settings),
        altered=hashed.settings(learned.altered),
        brokers=[_broker(hashed, each) for each in learned.brokers],
        topics=[
            Topic(name=hashed.topic(each.name), replicas=each.replicas, settings=hashed.settings(each.settings))
            for each in learned.topics
        ],
        groups=[_group(hashed, each) for each in learned.groups],
        quotas=[_quota(hashed, each) for each in learned.quotas],
        acls=[_acl(hashed, each) for each in learned.acls],
        users=[User(name=hashed.name("user", each.name), mechanisms=each.mechanisms) for each in learned.users],
    )
    made.left_out = sorted(_known({*learned.left_out, *hashed.left_out}))
    return made


def _known(names: Iterable[str]) -> Iterable[str]:
    """Returns the names of Kafka's own settings. The names of listeners' settings are left out, because they could reveal names
    that a company uses."""
    return {
        name if name in BROKER_SETTINGS or name in TOPIC_SETTINGS else "settings whose values are names of their own"
        for name in names
    }


def _broker(hashed: Hashed, broker: Broker) -> Broker:
    return Broker(
        node_id=broker.node_id,
        rack=None if broker.rack is None else hashed.name("rack", broker.rack),
        settings=hashed.settings(broker.settings),
        altered=hashed.settings(broker.altered),
    )


def _group(hashed: Hashed, group: Group) -> Group:
    return Group(
        name=hashed.name("group", group.name),
        type=group.type,
        protocol_type=hashed.word("protocol", group.protocol_type),
        protocol=hashed.word("protocol", group.protocol),
        settings=hashed.settings(group.settings),
    )


def _quota(hashed: Hashed, quota: Quota) -> Quota:
    entity = {
        kind: name if name == DEFAULT else hashed.name(ENTITIES[kind], name) if kind in ENTITIES else hashed.host(name)
        for kind, name in quota.entity.items()
    }
    return Quota(entity=entity, limits=quota.limits)


def _acl(hashed: Hashed, acl: Acl) -> Acl:
    name = acl.name
    if acl.resource == "USER":
        name = hashed.principal(name)
    elif acl.resource in KINDS and name != "*":
        prefix = acl.pattern == "PREFIXED"
        kept = acl.resource == "TOPIC" and not prefix
        name = hashed.topic(name) if kept else hashed.name(KINDS[acl.resource], name, prefix=prefix)
    return msgspec.structs.replace(acl, name=name, principal=hashed.principal(acl.principal), host=hashed.host(acl.host))
