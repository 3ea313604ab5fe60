"""Requests that are always refused: AddRaftVoter (versions 0–1), RemoveRaftVoter (version 0), and requests of a feature at
level 0.

With kraft.version 0 the quorum is static, and a valid request gets UNSUPPORTED_VERSION. With kraft.version 1, a request to add
a broker of the cluster gets DUPLICATE_VOTER. A request to add any other id gets REQUEST_TIMED_OUT, because only brokers are
controllers. No voter can be removed (VOTER_NOT_FOUND), because every broker is a controller. The cluster id is checked first
(INCONSISTENT_CLUSTER_ID), then the voter's id, its directory and its controller's address (INVALID_REQUEST), as in
KafkaRaftClient.
"""

from __future__ import annotations

from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.add_raft_voter import AddRaftVoterRequest
from kafkawire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kafkawire.primitives import ZERO_UUID
from kafkawire.registry import response_class
from wirebroker.apis.exchange import Exchange
from wirebroker.core.features import KRAFT
from wirebroker.core.quorum import LISTENER, Voter, voters
from wirebroker.core.refusals import Refusal
from wirebroker.requests.errors import refuse


def handle(request: AddRaftVoterRequest | RemoveRaftVoterRequest, exchange: Exchange) -> Message:
    """Refuse to change the voters, in Kafka's words."""
    verb, gerund = ("add", "adding") if isinstance(request, AddRaftVoterRequest) else ("remove", "removing")
    refusal = _unsound(request, verb, exchange) or _unheard(request) or _static(gerund, exchange) or _unknown(request, exchange)
    return exchange.refused(*refusal)


def _unsound(request: AddRaftVoterRequest | RemoveRaftVoterRequest, verb: str, exchange: Exchange) -> Refusal | None:
    own = exchange.cluster.cluster_id
    if request.cluster_id not in (None, own):
        message = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{own}"'
        return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{verb.capitalize()} voter request didn't include a valid voter")
    return None


def _unheard(request: AddRaftVoterRequest | RemoveRaftVoterRequest) -> Refusal | None:
    if isinstance(request, RemoveRaftVoterRequest):
        return None
    names = [each.name.upper() for each in request.listeners]
    if LISTENER in names:
        return None
    shown = ", ".join(
        f"ListenerName({name})={each.host}/<unresolved>:{each.port}"
        for name, each in zip(names, request.listeners, strict=True)
    )
    lacks = f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{shown}}}))"
    return Refusal(ErrorCode.INVALID_REQUEST, f"{lacks} for the default listener ListenerName({LISTENER})")


def _static(gerund: str, exchange: Exchange) -> Refusal | None:
    if exchange.cluster.configs.features[KRAFT]:
        return None
    message = f"Cluster doesn't support {gerund} voter because the kraft.version feature is 0"
    return Refusal(ErrorCode.UNSUPPORTED_VERSION, message)


def _unknown(request: AddRaftVoterRequest | RemoveRaftVoterRequest, exchange: Exchange) -> Refusal:
    voter, known = Voter(request.voter_id, request.voter_directory_id), voters(exchange.cluster)
    listed = f"[{', '.join(map(str, known))}]"
    if isinstance(request, RemoveRaftVoterRequest):
        return Refusal(ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {voter} from the set of voters {listed}")
    if request.voter_id in exchange.cluster.brokers:
        already = f"The voter id for {voter} is already part of the set of voters {listed}."
        return Refusal(ErrorCode.DUPLICATE_VOTER, already)
    return Refusal(ErrorCode.REQUEST_TIMED_OUT, f"New voter {voter} is not ready to receive requests")


def without_feature(request: Message, exchange: Exchange) -> Message:
    """Returns UNSUPPORTED_VERSION for an API whose feature is at level 0. The error is at the top of the response. If the top
    has no field for an error, each group has the error.
    """
    made: Any = response_class(exchange.api_key)
    if any(field.name == "error_code" for field in made.__wire__):
        tells = made.__name__ in ("AlterShareGroupOffsetsResponse", "DeleteShareGroupOffsetsResponse")
        return exchange.refused(ErrorCode.UNSUPPORTED_VERSION, "The version of API is not supported." if tells else None)
    by_group: Any = refuse(request, ErrorCode.UNSUPPORTED_VERSION, exchange)
    for group in by_group.groups:
        group.error_code = ErrorCode.UNSUPPORTED_VERSION
        if hasattr(group, "topics"):
            group.topics = []
    return by_group  # type: ignore[no-any-return]
