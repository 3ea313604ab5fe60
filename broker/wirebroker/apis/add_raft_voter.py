"""AddRaftVoter, versions 0–1.

The quorum of this broker is static, as that of a Kafka with kraft.version 0: a sound request is UNSUPPORTED_VERSION. Before
that come the wrong cluster (INCONSISTENT_CLUSTER_ID), and a voter without an id, a directory or a controller's address
(INVALID_REQUEST), as in KafkaRaftClient.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from wirebroker.core.refusals import Refusal, static_quorum
from wirebroker.exchange import Exchange

CONTROLLER = "CONTROLLER"
"""The listener of Kafka's controllers."""


def handle(request: AddRaftVoterRequest, exchange: Exchange) -> AddRaftVoterResponse:
    """Refuse it, in Kafka's words."""
    voter = request.voter_id, request.voter_directory_id
    refusal = static_quorum("add", request.cluster_id, exchange.cluster.cluster_id, *voter)
    names = [each.name.upper() for each in request.listeners]
    if refusal.code == ErrorCode.UNSUPPORTED_VERSION and CONTROLLER not in names:
        shown = ", ".join(
            f"ListenerName({each.name.upper()})={each.host}/<unresolved>:{each.port}" for each in request.listeners
        )
        lacks = f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{shown}}}))"
        refusal = Refusal(ErrorCode.INVALID_REQUEST, f"{lacks} for the default listener ListenerName({CONTROLLER})")
    return AddRaftVoterResponse(error_code=refusal.code, error_message=refusal.message)
