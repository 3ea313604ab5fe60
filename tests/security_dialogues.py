"""Random dialogues of clients with few rights, made from a seed: logins, credentials, delegation tokens and ACLs.

The same seed makes the same dialogue if the broker's responses are the same. scripts/record security plays the dialogues on a
real Kafka, and a test plays them on wirebroker. Each dialogue has its own users. Because of this, it also has its own ACLs and
tokens. The times in responses are relative to the time of the step.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

from acl_requests import ALL, ALTER, CREATE, DELETE, DESCRIBE, READ, TOPIC, WRITE, Plain, comparable, log_in, plain_request
from kafkawire.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.messages.sasl_handshake import SaslHandshakeRequest
from wirebroker.client.login import tokens
from wirebroker.client.wire import Connection, ConnectionClosed
from wirebroker.security.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from wirebroker.security.scram import BY_NAME, SHA_256

RECORDED = "security-4.3.1.json"
SECRET = {"delegation.token.secret.key": "a secret of all brokers", "delegation.token.max.lifetime.ms": "7200000",
          "delegation.token.expiry.time.ms": "3600000"}  # fmt: skip
NAMES = ("alice", "bob", "carol")
MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512)
GROUP, CLUSTER, DELEGATION_TOKEN, USER = 3, 4, 6, 7
CREATE_TOKENS, DESCRIBE_TOKENS = 13, 14
STEPS = 30
Address = tuple[str, int]
Spread = Callable[[tuple[str, int] | None], None]


class Talk:
    """A dialogue. After every change, the dialogue calls `spread`, which waits until the change is in effect in every part of a
    real Kafka. After a change of a token, the argument of `spread` is the token's id and its new expiry time. After any other
    change the argument is None.
    """

    def __init__(self, seed: int, secured: Address, plaintext: Address, now: Callable[[], int], spread: Spread) -> None:
        self.random = Random(seed)
        self.seed, self.secured, self.plaintext, self.now, self.spread = seed, secured, plaintext, now, spread
        self.passwords = {name: f"{name}-1" for name in NAMES}
        self.tokens: list[tuple[str, bytes]] = []
        self.open: dict[str, Connection] = {}
        self.admin = log_in(secured, "admin")

    def user(self, name: str) -> str:
        return f"{name}-{self.seed}"

    def play(self) -> Iterator[list[Any]]:
        """Plays the dialogue, and yields the name and the response of each step."""
        for name in NAMES:
            self._change("AlterUserScramCredentials", 0, self._credential(name, self.passwords[name]))
        for name in NAMES[:2]:
            yield ["log in", name, self._log_in(name, MECHANISMS[0], self.user(name), self.passwords[name])]
        steps = [self._login, self._token_login, self._credentials, self._acl, self._acls_gone, self._create, self._create,
                 self._renew, self._expire, self._describe, self._describe, self._ask, self._ask, self._ask]  # fmt: skip
        for _ in range(STEPS):
            yield self.random.choice(steps)()
        for connection in (*self.open.values(), self.admin):
            connection.close()

    # Logins

    def _login(self) -> list[Any]:
        name, mechanism = self.random.choice(NAMES), self.random.choice(MECHANISMS)
        wrong = self.random.random() < 0.3
        return [
            "log in",
            name,
            mechanism,
            wrong,
            self._log_in(name, mechanism, self.user(name), "x" if wrong else self.passwords[name]),
        ]

    def _token_login(self) -> list[Any]:
        if not self.tokens:
            return self._create()
        number = self.random.randrange(len(self.tokens))
        token_id, secret = self.tokens[number]
        mechanism, as_user, wrong = self.random.choice(MECHANISMS), self.random.random() < 0.1, self.random.random() < 0.2
        extensions = "" if as_user else ",tokenauth=true"
        password = "x" if wrong else b64encode(secret).decode()
        return [
            "log in by token",
            number,
            mechanism,
            as_user,
            wrong,
            self._log_in(f"token {number}", mechanism, token_id, password, extensions),
        ]

    def _log_in(self, key: str, mechanism: str, user: str, password: str, extensions: str = "") -> Any:
        connection = Connection(self.secured, 10)
        dialogue = tokens(mechanism, user, password, extensions)
        token, last = next(dialogue), None
        connection.request(SaslHandshakeRequest(mechanism=mechanism), 1)
        with suppress(StopIteration):
            while True:
                last = connection.request(SaslAuthenticateRequest(auth_bytes=token), 2)
                token = dialogue.send(bytes(last.auth_bytes))
        assert last is not None
        if last.error_code:
            connection.close()
            return [last.error_code, last.error_message]
        if key in self.open:
            self.open[key].close()
        self.open[key] = connection
        return [0, _rounded(last.session_lifetime_ms)]

    # The administrator's changes

    def _change(self, api: str, version: int, body: Plain) -> Any:
        response = self.admin.request(_request(api, body), version)
        self.spread(None)
        return response

    def _credential(self, name: str, password: str) -> Plain:
        import hashlib

        made = [
            {"name": self.user(name), "mechanism": BY_NAME[each].number, "iterations": 4096, "salt": b"salt",
             "salted_password": hashlib.pbkdf2_hmac(BY_NAME[each].digest, password.encode(), b"salt", 4096)}
            for each in MECHANISMS[:1]
        ]  # fmt: skip
        return {"upsertions": made, "deletions": []}

    def _credentials(self) -> list[Any]:
        name = self.random.choice(NAMES)
        if self.random.random() < 0.3:
            body = {"upsertions": [], "deletions": [{"name": self.user(name), "mechanism": SHA_256.number}]}
        else:
            self.passwords[name] = f"{name}-{self.random.randrange(3)}"
            body = self._credential(name, self.passwords[name])
        response = self._change("AlterUserScramCredentials", 0, body)
        return ["credentials", name, [[each.error_code, each.error_message] for each in response.results]]

    def _acl(self) -> list[Any]:
        kind, names, operations = self.random.choice([
            (USER, [f"User:{self.user(name)}" for name in NAMES], [CREATE_TOKENS, DESCRIBE_TOKENS, ALL, READ]),
            (DELEGATION_TOKEN, [token_id for token_id, _ in self.tokens] or ["none"], [DESCRIBE, ALL, DELETE]),
            (TOPIC, ["seen", "se", "hidden", "*"], [READ, WRITE, CREATE, DELETE, DESCRIBE, ALL]),
            (GROUP, ["team"], [READ, DESCRIBE, DELETE]), (CLUSTER, ["kafka-cluster"], [DESCRIBE, ALTER, CREATE, ALL]),
        ])  # fmt: skip
        number = self.random.randrange(len(names))
        entry = {
            "resource_type": kind, "resource_name": names[number], "principal": f"User:{self.user(self.random.choice(NAMES))}",
            "resource_pattern_type": 4 if self.random.random() < 0.3 else 3, "operation": self.random.choice(operations),
            "permission_type": 2 if self.random.random() < 0.25 else 3, "host": self.random.choice(["*", "*", "10.0.0.1"]),
        }  # fmt: skip
        response = self._change("CreateAcls", 3, {"creations": [entry]})
        return ["acl", kind, number, entry["operation"], [each.error_code for each in response.results]]

    def _acls_gone(self) -> list[Any]:
        anything = {
            "resource_type_filter": self.random.choice([1, USER, DELEGATION_TOKEN, TOPIC]), "resource_name_filter": None,
            "pattern_type_filter": 1, "principal_filter": f"User:{self.user(self.random.choice(NAMES))}", "host_filter": None,
            "operation": 1, "permission_type": 1,
        }  # fmt: skip
        response = self._change("DeleteAcls", 3, {"filters": [anything]})
        return ["acls gone", [[each.error_code, len(each.matching_acls)] for each in response.filter_results]]

    # Tokens

    def _as_somebody(self, request: Any, version: int) -> tuple[str, Any]:
        """Send a request as a random client, in some cases over the plaintext listener."""
        key = self.random.choice(sorted(self.open))
        if self.random.random() < 0.08:
            connection = Connection(self.plaintext, 10)
            response = connection.request(request, version)
            connection.close()
            return "plaintext", response
        try:
            return key, self.open[key].request(request, version)
        except ConnectionClosed:
            del self.open[key]
            return key, None

    def _principal(self) -> Plain:
        name = self.random.choice([*(self.user(each) for each in NAMES), "nobody"])
        return {"principal_type": "Group" if self.random.random() < 0.1 else "User", "principal_name": name}

    def _create(self) -> list[Any]:
        body: Plain = {
            "renewers": [self._principal() for _ in range(self.random.choice([0, 0, 1, 2]))],
            "max_lifetime_ms": self.random.choice([-1, 0, 1, 5_000_000, 10**12]),
        }
        version = self.random.choice([1, 2, 3, 3, 3])
        if version == 3 and self.random.random() < 0.5:
            owner = self._principal()
            body |= {"owner_principal_type": owner["principal_type"], "owner_principal_name": owner["principal_name"]}
        key, response = self._as_somebody(_request("CreateDelegationToken", body), version)
        if response is not None and not response.error_code:
            self.spread((response.token_id, response.expiry_timestamp_ms))
        if response is not None and not response.error_code and body["max_lifetime_ms"] != 1:
            self.tokens.append((response.token_id, bytes(response.hmac)))
        shown = None if response is None else self._shown(response, "_ms", response.issue_timestamp_ms)
        return ["create", key, version, body["max_lifetime_ms"], len(body["renewers"]), shown]

    def _shown(self, token: Any, ending: str, since: int) -> Plain:
        """Returns a token as plain data: its number, whether it has a secret, and its times relative to `since`."""
        found = comparable(token, {})
        for name in ("issue", "expiry", "max"):
            at = found.pop(f"{name}_timestamp{ending}")
            found[name] = at if at <= 0 else _rounded(at - since)
        number = [i for i, (token_id, _) in enumerate(self.tokens) if token_id == token.token_id]
        found["token_id"] = number if token.token_id else ""
        return {name: str(value).replace(f"-{self.seed}", "") for name, value in found.items()}

    def _secret(self) -> tuple[int, bytes]:
        if not self.tokens or self.random.random() < 0.1:
            return -1, b"no token has this secret"
        number = self.random.randrange(len(self.tokens))
        return number, self.tokens[number][1]

    def _renew(self) -> list[Any]:
        number, secret = self._secret()
        period = self.random.choice([-1, 0, 600_000, 10**12])
        return self._moved("RenewDelegationToken", number, {"hmac": secret, "renew_period_ms": period}, period)

    def _expire(self) -> list[Any]:
        number, secret = self._secret()
        period = self.random.choice([-1, 0, 600_000, 1_200_000, 10**12])
        return self._moved("ExpireDelegationToken", number, {"hmac": secret, "expiry_time_period_ms": period}, period)

    def _moved(self, api: str, number: int, body: Plain, period: int) -> list[Any]:
        now = self.now()
        key, response = self._as_somebody(_request(api, body), self.random.choice([1, 2]))
        if response is not None and not response.error_code:
            self.spread(
                (self.tokens[number][0], -1 if api.startswith("Expire") and period < 0 else response.expiry_timestamp_ms)
            )
        if response is None:
            return [api, key, number, period, None]
        at = response.expiry_timestamp_ms
        return [api, key, number, period, response.error_code, at if at <= 0 else _rounded(at - now)]

    def _describe(self) -> list[Any]:
        owners = None if self.random.random() < 0.5 else [self._principal() for _ in range(self.random.randrange(3))]
        version = self.random.choice([1, 2, 3])
        now = self.now()
        key, response = self._as_somebody(_request("DescribeDelegationToken", {"owners": owners}), version)
        if response is None:
            return ["describe", key, None]
        known = [token_id for token_id, _ in self.tokens]
        mine = sorted((each for each in response.tokens if each.token_id in known), key=lambda each: known.index(each.token_id))
        return ["describe", key, version, response.error_code, [self._shown_now(each, now) for each in mine]]

    def _shown_now(self, token: Any, now: int) -> Plain:
        shown = self._shown(token, "", now)
        del shown["issue"]
        return shown

    # Other requests

    def _ask(self) -> list[Any]:
        topics = [{"name": name} for name in ("seen", "hidden", "absent")]
        parts = [{"name": each["name"], "partitions": [{}]} for each in topics]
        api, version, body = self.random.choice([
            ("Metadata", 12, {"topics": topics, "allow_auto_topic_creation": False, "include_topic_authorized_operations": True}),
            ("CreateTopics", 7, {"topics": [each | {"num_partitions": 1, "replication_factor": 1} for each in topics], "validate_only": True}),
            ("DescribeConfigs", 4, {"resources": [{"resource_type": 2, "resource_name": "seen", "configuration_keys": ["retention.ms"]}]}),
            ("DescribeCluster", 2, {"include_cluster_authorized_operations": True}),
            ("ListOffsets", 7, {"replica_id": -1, "topics": parts}),
            ("DescribeUserScramCredentials", 0, {"users": [{"name": self.user("carol")}]}),
            ("DescribeAcls", 3, {"resource_type_filter": GROUP, "resource_name_filter": "nobody", "pattern_type_filter": 3,
                                 "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}),
            ("DeleteTopics", 5, {"topic_names": ["absent"], "timeout_ms": 1000}),
        ])  # fmt: skip
        key, response = self._as_somebody(_request(api, body), version)
        shown = comparable(response, {}) if response is not None else None
        return ["ask", key, api, str(shown).replace(f"-{self.seed}", "")]


def _request(api: str, body: Plain) -> Any:
    secrets = {name: body[name] for name in ("hmac",) if name in body}
    request: Any = plain_request(api, {name: value for name, value in body.items() if name not in (*secrets, "upsertions")})
    for name, value in secrets.items():
        setattr(request, name, value)
    if "upsertions" in body:
        from kafkawire.messages.alter_user_scram_credentials import ScramCredentialUpsertion

        request.upsertions = [ScramCredentialUpsertion(**each) for each in body["upsertions"]]
    return request


def _rounded(ms: int) -> int:
    """Converts milliseconds to minutes."""
    return round(ms / 60_000)
