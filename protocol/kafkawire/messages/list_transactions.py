"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest(Message):
    """Kafka's ListTransactionsRequest, versions 0 to 2."""

    state_filters: list[str] = wire(["string"])
    producer_id_filters: list[int] = wire(["int64"], entity="producerId")
    duration_filter: int = wire("int64", since=1, default=-1)
    transactional_id_pattern: str | None = wire("string", since=2, nullable=2, default=None)


@struct
class TransactionState(Struct):
    transactional_id: str = wire("string", entity="transactionalId")
    producer_id: int = wire("int64", entity="producerId")
    transaction_state: str = wire("string")


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsResponse(Message):
    """Kafka's ListTransactionsResponse, versions 0 to 2."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    unknown_state_filters: list[str] = wire(["string"])
    transaction_states: list[TransactionState] = wire([TransactionState])
