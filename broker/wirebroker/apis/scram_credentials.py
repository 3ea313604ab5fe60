"""DescribeUserScramCredentials, version 0.

Returns the mechanism and the iterations of each user's SCRAM credentials, but no secrets (ScramImage.describe). The users have
the order of Kafka's HashMap. A request without users gets all users. A user named twice gets DUPLICATE_RESOURCE, and a user
without credentials gets RESOURCE_NOT_FOUND.

AlterUserScramCredentials, version 0.

Adds, replaces and removes SCRAM credentials (ScramControlManager). A user named twice gets DUPLICATE_RESOURCE. An empty name,
or too few or too many iterations, gets UNACCEPTABLE_CREDENTIAL. An unknown mechanism gets UNSUPPORTED_SASL_MECHANISM. Removing
a missing credential gets RESOURCE_NOT_FOUND. If one change is refused, the other changes are still made. If the level of
metadata.version is too low, every user gets UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

from kafkawire.disk.metadata import ScramCredential
from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkawire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import mapped, pauses
from wirebroker.core.features import SCRAM_SINCE, is_too_old
from wirebroker.core.java_order import buckets_for, hash_order_in_slices, java_hash
from wirebroker.core.refusals import DONE, MOST_RECORDS, Refusal
from wirebroker.core.releases.changes import since
from wirebroker.security.scram import BY_NUMBER, LEAST_ITERATIONS, MOST_ITERATIONS, credential_of_salted

ONE_CREDENTIAL = since("3.3", "AlterUserScramCredentials refuses a user that is named twice", "KIP-833")

Change = ScramCredentialDeletion | ScramCredentialUpsertion

TWICE = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
NO_SCRAM = Refusal(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
MISSING = Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
NO_KEY = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
"""The refusal of an empty salted password: Java cannot make a key from an empty password."""
TOO_MANY = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
"""The refusal of more changes than Kafka's controller writes for one request."""


def describe_user_scram_credentials(request: DescribeUserScramCredentialsRequest, exchange: Exchange) -> Steps:
    everybody = dict.fromkeys(user for user, _ in exchange.cluster.scram)
    asked, pause = Counter(user.name for user in request.users or ()) or Counter(everybody.keys()), pauses()
    names = yield from hash_order_in_slices(asked, java_hash, buckets_for(len(asked)), pause)
    results = yield from mapped(lambda name: _described(name, asked[name], exchange), names, pause)
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, error_message="", results=results)


def _described(name: str, times: int, exchange: Exchange) -> DescribeUserScramCredentialsResult:
    held = ((mechanism, exchange.cluster.scram.get((name, mechanism))) for mechanism in sorted(BY_NUMBER))
    found = [(mechanism, credential.iterations) for mechanism, credential in held if credential is not None]
    code, message = ErrorCode.NONE, ""
    if times > 1:
        code, found = ErrorCode.DUPLICATE_RESOURCE, []
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif not found:
        code, message = ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {name}"
    infos = [CredentialInfo(mechanism=mechanism, iterations=iterations) for mechanism, iterations in found]
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message, credential_infos=infos)


def alter_user_scram_credentials(request: AlterUserScramCredentialsRequest, exchange: Exchange) -> Steps:
    refused: dict[str, Refusal] = {}
    wanted: dict[str, list[Change]] = {}
    alone = ONE_CREDENTIAL.of(exchange.cluster.configs.release)
    changes: list[Change] = [*request.deletions, *request.upsertions]
    times = Counter((change.name, change.mechanism) for change in changes)
    pause = pauses()
    for change in changes:
        yield from pause()
        if change.name in refused:
            continue
        refusal = _refusal(change, exchange)
        if change.name in wanted if alone else times[change.name, change.mechanism] > 1 and refusal in (None, MISSING):
            refusal = TWICE
        if refusal is None:
            wanted.setdefault(change.name, []).append(change)
        else:
            refused[change.name] = refusal
            wanted.pop(change.name, None)
    credentials = {}
    for each in list(chain.from_iterable(wanted.values())):
        yield from pause()
        if isinstance(each, ScramCredentialUpsertion) and not each.salted_password:
            refused[each.name] = NO_KEY
            wanted.pop(each.name, None)
        else:
            credentials[each.name, each.mechanism] = _credential(each)
    if alone and len(credentials) > MOST_RECORDS:
        refused |= dict.fromkeys((name for name, _ in credentials), TOO_MANY)
        wanted.clear()
    if wanted:
        exchange.cluster.alter_scram(credentials)
    altered = [
        [name for name, changes in wanted.items() if isinstance(changes[0], kind)]
        for kind in (ScramCredentialDeletion, ScramCredentialUpsertion)
    ]
    results = []
    for names in (*altered, list(refused)):
        for name in (yield from hash_order_in_slices(names, java_hash, buckets_for(len(names)), pause)):
            yield from pause()
            code, message = refused.get(name, DONE)
            results.append(AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message))
    return AlterUserScramCredentialsResponse(results=results)


def _refusal(change: Change, exchange: Exchange) -> Refusal | None:
    configs = exchange.cluster.configs
    if is_too_old(configs.release, configs.features, SCRAM_SINCE):
        return NO_SCRAM
    if not change.name:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in BY_NUMBER:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if (change.name, change.mechanism) not in exchange.cluster.scram:
            return MISSING
        return None
    if change.iterations < LEAST_ITERATIONS:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MOST_ITERATIONS:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return None


def _credential(change: Change) -> ScramCredential | None:
    if isinstance(change, ScramCredentialDeletion):
        return None
    salted, salt = bytes(change.salted_password), bytes(change.salt)
    return credential_of_salted(BY_NUMBER[change.mechanism], salted, salt, change.iterations)
