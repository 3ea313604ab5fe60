"""RemoveRaftVoter, version 0.

With kraft.version 0 the quorum is static, and a sound request is UNSUPPORTED_VERSION. Before that come the wrong cluster
(INCONSISTENT_CLUSTER_ID), and a voter without an id or a directory (INVALID_REQUEST). With kraft.version 1 no voter is found,
because the voters here have no directories that a client could name (VOTER_NOT_FOUND).
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from wirebroker.apis.exchange import Exchange
from wirebroker.core.features import KRAFT
from wirebroker.core.refusals import Refusal, voter_refusal


def handle(request: RemoveRaftVoterRequest, exchange: Exchange) -> RemoveRaftVoterResponse:
    """Refuse it, in Kafka's words."""
    voter, cluster = (request.voter_id, request.voter_directory_id), exchange.cluster
    refusal = voter_refusal("remove", request.cluster_id, cluster.cluster_id, *voter, cluster.configs.features[KRAFT])
    if refusal.code == ErrorCode.NONE:
        refusal = Refusal(ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {request.voter_id} from the set of voters")
    return RemoveRaftVoterResponse(error_code=refusal.code, error_message=refusal.message)
