"""DescribeUserScramCredentials, version 0.

Returns the mechanism and the iterations of each user's SCRAM credentials, but no secrets (ScramImage.describe). The users have
the order of Kafka's HashMap. A request without users gets all users. A user named twice gets DUPLICATE_RESOURCE, and a user
without credentials gets RESOURCE_NOT_FOUND.
"""

from __future__ import annotations

from collections import Counter

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import mapped, pauses
from wirebroker.core.java_order import buckets_for, hash_order_in_slices, java_hash
from wirebroker.security.scram import BY_NUMBER


def handle(request: DescribeUserScramCredentialsRequest, exchange: Exchange) -> Steps:
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
