"""The API versions that a broker announces, and the versions that a replay uses if the broker does not announce the named
versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kafkawire.errors import WireError
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.registry import api_name
from wirebroker.client.wire import WireClient

VersionMode = Literal["named", "clamped"]
"""The way in which a replay chooses API versions: as the scenario names them ("named"), or lowered to the versions that the
broker has ("clamped")."""


@dataclass(frozen=True, slots=True)
class Announced:
    """The newest version of each API, by the API's name. If a broker does not respond to ApiVersions, it counts as having every
    version."""

    newest: Mapping[str, int]

    @classmethod
    def by(cls, client: WireClient) -> Announced:
        """Returns the versions that the broker of this client announces."""
        try:
            told = client.request(ApiVersionsRequest(), 0).api_keys
        except (OSError, WireError):
            return cls({})
        return cls({api_name(each.api_key): each.max_version for each in told})

    def lowered(self, api: str, version: int) -> int:
        """Returns `version` or the broker's newest version of the API, whichever is lower."""
        return min(version, self.newest.get(api, version))

    def lacks(self, api: str) -> bool:
        """Tells whether the broker does not have this API."""
        return bool(self.newest) and api not in self.newest
