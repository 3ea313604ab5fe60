"""Sends requests to a cluster that is being learned. Each request has the newest version that wirebroker and the broker
support, and names a limited number of topics or groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode, error_name
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.registry import API_VERSIONS, api_name
from wirebroker.client.brokers import Brokers
from wirebroker.client.wire import ConnectionClosed, NoResponse
from wirebroker.common.complaints import Complaint
from wirebroker.testing.learned_file import Unread

PIECE = 200
"""One request names at most this many topics or groups. The response to a request for settings has about thirty settings for
each topic."""
T = TypeVar("T")


class CannotLearn(Complaint):
    """Raised if a cluster cannot be learned. The message is one sentence."""


class NotOffered(Exception):
    """Raised if the broker and wirebroker have no version of an API in common."""


class Unreachable(Exception):
    """Raised if a broker cannot be reached at its advertised address. The message names the address."""


class Refused(Exception):
    """Raised if the broker refuses a request that reads a section of the cluster. `name` is the name of the error code."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def check(error_code: int) -> None:
    """Raises Refused unless the error code is NONE."""
    if error_code != ErrorCode.NONE:
        raise Refused(error_name(error_code))


def pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yields the items in slices. Each slice has at most PIECE items."""
    for start in range(0, len(items), PIECE):
        yield items[start : start + PIECE]


class Asked:
    """A cluster that is being learned. The cluster is reached through the broker at `bootstrap`. Every request may raise the
    errors of `Brokers`."""

    def __init__(self, brokers: Brokers, bootstrap: str, progress: Callable[[str, int, int], None]) -> None:
        self._brokers, self.bootstrap = brokers, bootstrap
        self.progress = progress
        """A function that shows the progress. Its arguments are the name of a section, the number of parts that were read so
        far, and the number of all parts of the section."""
        self.unread: list[Unread] = []
        self.left_out: set[str] = set()
        self.versions: ApiVersionsResponse = self._versions(bootstrap)
        self._spoken = {bootstrap: self.versions}
        self.metadata: MetadataResponse = self.request(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        if not self.metadata.brokers:
            raise CannotLearn(f"{bootstrap} names no broker in its Metadata")
        self.addresses = {each.node_id: _address(each.host, each.port) for each in self.metadata.brokers}

    def _versions(self, address: str) -> ApiVersionsResponse:
        """Returns the API versions that a broker offers. The first request has version 0, which every broker supports."""
        told = self._brokers.request(ApiVersionsRequest(), 0, address)
        newest = min(_range(told, API_VERSIONS)[1], ApiVersionsRequest.__schema__.versions[1])
        if newest > 0:
            asked = ApiVersionsRequest(client_software_name="wirebroker", client_software_version="learn")
            told = self._brokers.request(asked, newest, address)
        if told.error_code != ErrorCode.NONE:
            raise CannotLearn(f"{address} answers ApiVersions with {error_name(told.error_code)}")
        return told  # type: ignore[no-any-return]  # `request` returns Any

    def request(self, message: Message, node_id: int | None = None) -> Any:
        """Returns a broker's response to the request. Without `node_id`, the request is sent to the broker at `bootstrap`.
        Raises NotOffered, Unreachable."""
        address = self.bootstrap if node_id is None else self.addresses[node_id]
        if address not in self._spoken:
            try:
                self._spoken[address] = self._versions(address)
            except (NoResponse, ConnectionClosed) as silent:
                raise Unreachable(f"{address}, the advertised listener of broker {node_id}: {silent}") from None
        key, (ours_oldest, ours_newest) = message.__schema__.key, message.__schema__.versions
        oldest, newest = _range(self._spoken[address], key)
        if max(oldest, ours_oldest) > min(newest, ours_newest):
            raise NotOffered(api_name(key))
        return self._brokers.request(message, min(newest, ours_newest), address)

    def read(self, section: str, needs: str, read: Callable[[], T]) -> T | None:
        """Returns the result of `read()`. Notes the reason and returns None if the broker refuses the request, does not
        respond, does not offer the API, or cannot be reached. If the broker at `bootstrap` no longer responds to ApiVersions,
        raises the errors of `_versions`.
        """
        self.progress(section, 0, 1)
        try:
            return read()
        except Refused as refused:
            self.note(section, refused.name, needs)
        except NotOffered as missing:
            self.note(section, f"the broker does not offer {missing}")
        except Unreachable as unreachable:
            self.note(section, str(unreachable))
        except (NoResponse, ConnectionClosed) as silent:
            self._versions(self.bootstrap)
            self.note(section, str(silent), needs)
        return None

    def note(self, section: str, error: str, needs: str = "") -> None:
        """Notes that a section could not be read because of this error. Equal notes are kept only once."""
        noted = Unread(section=section, error=error, needs=needs)
        if noted not in self.unread:
            self.unread.append(noted)


def _range(told: ApiVersionsResponse, key: int) -> tuple[int, int]:
    return next(((each.min_version, each.max_version) for each in told.api_keys if each.api_key == key), (0, -1))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
