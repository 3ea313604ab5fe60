"""RemoveRaftVoter, version 0.

The quorum of this broker is static, as that of a Kafka with kraft.version 0: a sound request is UNSUPPORTED_VERSION. Before
that come the wrong cluster (INCONSISTENT_CLUSTER_ID), and a voter without an id or a directory (INVALID_REQUEST).
"""

from __future__ import annotations

from kafkawire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from wirebroker.core.refusals import static_quorum
from wirebroker.exchange import Exchange


def handle(request: RemoveRaftVoterRequest, exchange: Exchange) -> RemoveRaftVoterResponse:
    """Refuse it, in Kafka's words."""
    voter = request.voter_id, request.voter_directory_id
    refusal = static_quorum("remove", request.cluster_id, exchange.cluster.cluster_id, *voter)
    return RemoveRaftVoterResponse(error_code=refusal.code, error_message=refusal.message)
