"""Stands in for the program docker in the suites of clients. `ps` prints one container. `exec ID bash -c COMMAND` does the
work of one of Kafka's tools.

The tools support the options that these suites use, and send Kafka requests to the broker. SUITE_LISTENERS has the
broker's addresses, as `PLAINTEXT=127.0.0.1:9092 SSL=…`.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from kafkawire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kafkawire.messages.create_acls import AclCreation, CreateAclsRequest
from kafkawire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkawire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from wirebroker.client.wire import WireClient
from wirebroker.core.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

ITERATIONS = 4096
SCRAM = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}


def tool(command: str) -> None:
    """Do the work of kafka-acls, kafka-configs or kafka-topics. Raises ValueError if the broker refuses a request."""
    words = shlex.split(command)
    name, given = Path(words[0]).name.removesuffix(".sh"), _given(words[1:])
    address = re.findall(r"PLAINTEXT=(\S+)", os.environ["SUITE_LISTENERS"])[0]
    with closing(WireClient.at(address)) as client:
        if name == "kafka-acls" and "list" not in given:
            _alter_acl(client, given)
        elif name == "kafka-configs":
            _alter_user(client, given)
        elif name == "kafka-topics":
            topic = CreatePartitionsTopic(name=given["topic"], count=int(given["partitions"]), assignments=None)
            _check(client.request(CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 3).results)


def _given(words: list[str]) -> dict[str, str]:
    """Parses a tool's options. The value of an option without a value is ""."""
    pairs = zip(words, [*words[1:], "--"], strict=True)
    return {word[2:]: "" if value.startswith("--") else value for word, value in pairs if word.startswith("--")}


def _alter_acl(client: WireClient, given: dict[str, str]) -> None:
    kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional-id": ResourceType.TRANSACTIONAL_ID}
    kind = next((each for each in kinds if each in given), None)
    resource, name = (kinds[kind], given[kind]) if kind else (ResourceType.CLUSTER, CLUSTER_NAME)
    allows = "allow-principal" in given
    principal = given["allow-principal" if allows else "deny-principal"]
    rest = Operation[given["operation"].upper()], Permission.ALLOW if allows else Permission.DENY
    pattern = PatternType.LITERAL
    if "add" in given:
        acl = AclCreation(resource, name, pattern, principal, "*", *rest)
        _check(client.request(CreateAclsRequest(creations=[acl]), 2).results)
    else:
        wanted = DeleteAclsFilter(resource, name, pattern, principal, "*", *rest)
        _check(client.request(DeleteAclsRequest(filters=[wanted]), 2).filter_results)


def _alter_user(client: WireClient, given: dict[str, str]) -> None:
    for name, password in re.findall(r"(SCRAM-SHA-\d+)=\[(?:iterations=\d+,)?password=([^\]]*)\]", given["add-config"]):
        number, digest = SCRAM[name]
        salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, ITERATIONS)
        made = ScramCredentialUpsertion(given["entity-name"], number, ITERATIONS, salt, salted)
        _check(client.request(AlterUserScramCredentialsRequest(deletions=[], upsertions=[made]), 0).results)


def _check(results: list[Any]) -> None:
    for result in results:
        if result.error_code:
            raise ValueError(f"error {result.error_code}: {result.error_message}")


if __name__ == "__main__":
    if sys.argv[1] == "ps":
        print("broker")
    elif sys.argv[1] == "exec":
        tool(sys.argv[-1])
