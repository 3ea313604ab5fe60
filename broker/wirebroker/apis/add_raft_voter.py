"""AddRaftVoter, versions 0–1.

With kraft.version 0 the quorum is static, and a sound request is UNSUPPORTED_VERSION. With kraft.version 1 a broker of the
cluster is DUPLICATE_VOTER, and any other is REQUEST_TIMED_OUT, because the brokers are the only controllers. Before that
come the wrong cluster (INCONSISTENT_CLUSTER_ID), and a voter without an id, a directory or a controller's address
(INVALID_REQUEST), as in KafkaRaftClient.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from wirebroker.apis.exchange import Exchange
from wirebroker.core.features import KRAFT
from wirebroker.core.refusals import Refusal, voter_refusal

CONTROLLER = "CONTROLLER"
"""The listener of Kafka's controllers."""


def handle(request: AddRaftVoterRequest, exchange: Exchange) -> AddRaftVoterResponse:
    """Refuse it, in Kafka's words."""
    voter, cluster = (request.voter_id, request.voter_directory_id), exchange.cluster
    refusal = voter_refusal("add", request.cluster_id, cluster.cluster_id, *voter, cluster.configs.features[KRAFT])
    if refusal.code == ErrorCode.NONE:
        known = request.voter_id in cluster.brokers
        refusal = Refusal(ErrorCode.DUPLICATE_VOTER if known else ErrorCode.REQUEST_TIMED_OUT, f"The voter {request.voter_id}")
    names = [each.name.upper() for each in request.listeners]
    if refusal.code not in (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REQUEST) and CONTROLLER not in names:
        shown = ", ".join(
            f"ListenerName({each.name.upper()})={each.host}/<unresolved>:{each.port}" for each in request.listeners
        )
        lacks = f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{shown}}}))"
        refusal = Refusal(ErrorCode.INVALID_REQUEST, f"{lacks} for the default listener ListenerName({CONTROLLER})")
    return AddRaftVoterResponse(error_code=refusal.code, error_message=refusal.message)
