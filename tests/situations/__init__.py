"""Situations that are played on a real Kafka (scripts/record situations) and on wirebroker (tests/test_situations.py).

side            a broker, real or in process, and the actions that all situations use
recreated       Fetch of a topic that is deleted, or deleted and made again
recreated_shares    ShareFetch and ShareAcknowledge of a topic that is deleted, or deleted and made again
waits           how long a Fetch waits
share_waits     how long a ShareFetch waits
lists           requests whose lists of topics and partitions are empty, or name something twice
unusual         requests with unusual values of other fields
numbers         texts that Java reads as numbers, durations, ids or addresses, or refuses
texts           names that are not UTF-8
versions        requests of APIs and in versions that the broker does not announce
"""

from collections.abc import Callable

from situations import lists, numbers, recreated, recreated_shares, share_waits, texts, unusual, versions, waits
from situations.side import Side

Play = Callable[[Side], dict[str, str]]
TABLES: dict[str, Play] = {
    "recreated": recreated.play,
    "recreated shares": recreated_shares.play,
    "waits": waits.play,
    "share waits": share_waits.play,
    "lists": lists.play,
    "unusual": unusual.play,
    "numbers": numbers.play,
    "texts": texts.play,
    "versions": versions.play,
}
"""Each function plays all situations of a table. It returns the response in each situation as a text."""
SETTINGS = {"auto.create.topics.enable": "false", "fetch.max.bytes": "2000"}
"""The settings of the brokers."""


def recorded_by(version: str) -> str:
    """Returns the name of the file with the responses of a version of Kafka."""
    return f"situations-{version}.json.xz"
