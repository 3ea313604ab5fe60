"""Random dialogues of administrators of security: ACLs, SCRAM credentials and delegation tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json

ANY, LITERAL, PREFIXED, MATCH = 1, 3, 4, 2
USERS = ["alice", "bob", "@u"]
RESOURCES = {
    (2, "@t"): 5,
    (2, "@u"): 2,
    (2, "*"): 1,
    (3, "@a"): 3,
    (3, "@g"): 2,
    (4, "kafka-cluster"): 2,
    (5, "@a"): 2,
    (6, "x"): 1,
}
"""Resources (their types and names), and their weights. Resources with larger weights are chosen more often."""
OPERATIONS = {2: 3, 3: 5, 4: 4, 5: 2, 6: 2, 7: 1, 8: 3, 10: 1, 11: 1, 12: 1}
HOUR_MS = 3_600_000
NO_TOKEN = "no such token"


class Security(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    pause = 0.06

    def __init__(self, seed: int) -> None:
        super().__init__(Head("security", seed, ["t", "u"]))
        self._acls: list[Json] = []
        self._hmacs: list[str] = []

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        weights: dict[Callable[[], Ask], float] = {
            self._create_acls: 5.0, self._delete_acls: 3.0, self._describe_acls: 2.0, self._scram: 4.0,
            self._describe_scram: 2.0, self._create_token: 3.0, self._renew: 2.0, self._expire: 2.0, self._describe_tokens: 2.0,
        }  # fmt: skip
        return replace(self._pick(weights)(), connection=free[0])

    # ACLs

    def _acl(self) -> Json:
        kind, name = self._pick(RESOURCES)
        return {
            "resource_type": kind, "resource_name": name,
            "resource_pattern_type": self._pick({LITERAL: 5, PREFIXED: 2, ANY: 0.2}),
            "principal": f"User:{self._random.choice(USERS)}" if self._chance(0.95) else "nobody",
            "host": self._pick({"*": 5, "10.0.0.1": 1}), "operation": self._pick(OPERATIONS),
            "permission_type": self._pick({3: 5, 2: 1}),
        }  # fmt: skip

    def _create_acls(self) -> Ask:
        made = [self._acl() for _ in range(self._pick({1: 5, 2: 2, 0: 0.2}))]
        self._acls = [*self._acls, *made][-8:]
        return Ask(0, "CreateAcls", self._version(1, 3), {"creations": made})

    def _filter(self) -> Json:
        acl = self._random.choice(self._acls) if self._acls else self._acl()
        names = {"pattern_type_filter": acl["resource_pattern_type"]} | {
            f"{name}_filter": acl[name] for name in ("resource_type", "resource_name", "principal", "host")
        }
        if self._chance(0.3):
            names |= {"pattern_type_filter": self._pick({ANY: 3, MATCH: 3, PREFIXED: 1})}
        if self._chance(0.3):
            names |= {"principal_filter": None, "host_filter": None}
        whole = {"operation": 1, "permission_type": 1} if self._chance(0.4) else {}
        return names | {"operation": acl["operation"], "permission_type": acl["permission_type"]} | whole

    def _delete_acls(self) -> Ask:
        filters = [self._filter() for _ in range(self._pick({1: 5, 2: 1}))]
        return Ask(0, "DeleteAcls", self._version(1, 3), {"filters": filters})

    def _describe_acls(self) -> Ask:
        return Ask(0, "DescribeAcls", self._version(1, 3), self._filter())

    # Users

    def _scram(self) -> Ask:
        made = {"name": self._random.choice(USERS), "mechanism": self._pick({1: 5, 2: 3, 0: 0.2})}
        added = {"iterations": self._pick({4096: 5, 8192: 2, 16: 0.3}), "salt": "salt", "salted_password": "p" * 32}
        gone = {"name": self._random.choice(USERS), "mechanism": self._pick({1: 5, 2: 3})}
        adds, removes = self._pick({(1, 0): 5, (0, 1): 3, (1, 1): 1, (0, 0): 0.2})
        body: Json = {"upsertions": [made | added] * adds, "deletions": [gone] * removes}
        return Ask(0, "AlterUserScramCredentials", 0, body)

    def _describe_scram(self) -> Ask:
        users = [{"name": name} for name in self._random.choices([*USERS, "nobody"], k=2)] if self._chance(0.6) else None
        return Ask(0, "DescribeUserScramCredentials", 0, {"users": users})

    # Tokens

    def _create_token(self) -> Ask:
        version = self._version(1, 3)
        body: Json = {"max_lifetime_ms": self._pick({-1: 4, HOUR_MS: 3, 1000: 1, 0: 0.2})}
        body["renewers"] = [{"principal_type": "User", "principal_name": "bob"}] * self._pick({0: 3, 1: 2})
        if version >= 3 and self._chance(0.3):
            body |= {"owner_principal_type": "User", "owner_principal_name": "carol"}
        return Ask(0, "CreateDelegationToken", version, body)

    def _heard_CreateDelegationToken(self, _: Ask, response: Json) -> None:  # noqa: N802
        if "error_code" not in response:
            self._hmacs = [*self._hmacs, response["hmac"]][-4:]

    def _hmac(self) -> str:
        return self._random.choice(self._hmacs) if self._hmacs and self._chance(0.95) else NO_TOKEN

    def _renew(self) -> Ask:
        body = {"hmac": self._hmac(), "renew_period_ms": self._pick({-1: 2, HOUR_MS: 3, 1000: 1})}
        return Ask(0, "RenewDelegationToken", self._version(1, 2), body)

    def _expire(self) -> Ask:
        body = {"hmac": self._hmac(), "expiry_time_period_ms": self._pick({-1: 3, HOUR_MS: 3, 1000: 1})}
        return Ask(0, "ExpireDelegationToken", self._version(1, 2), body)

    def _describe_tokens(self) -> Ask:
        owners = [{"principal_type": "User", "principal_name": self._random.choice(["admin", "carol"])}]
        return Ask(0, "DescribeDelegationToken", self._version(1, 3), {"owners": owners if self._chance(0.5) else None})
