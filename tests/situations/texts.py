"""Names whose bytes are not UTF-8. The broker replaces each invalid byte or character by U+FFFD, and returns the resulting
name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

from kafkawire.frames import decode_response, encode_request
from kafkawire.registry import KEYS
from requesting import Plain, plain
from situations.side import LATE_S, Side

BYTES = b"A\x80\x9f\xa0\xbf\xc2\xdf\xe0\xed\xef\xf0\xf4\xff"
"""One or two bytes of each kind in UTF-8: the first byte of a character of one to four bytes, or a later byte."""
PLACE = "xxx"
"""A placeholder in a request. `_response` replaces it by a name of three bytes."""
GROUP = "texts"
JOINS: Plain = {"group_id": GROUP, "session_timeout_ms": 9000, "rebalance_timeout_ms": 9000, "protocol_type": "any"}
JOINS |= {"protocols": [{"name": "p"}]}


def play(side: Side) -> dict[str, str]:
    """Sends names of three bytes, and returns the names in the responses."""
    side.find(GROUP)
    side.until(plain("JoinGroup", **JOINS), 4, lambda told: told.member_id)
    outcomes = {}
    for first in BYTES:
        names = [bytes((first, *others)) for others in itertools.product(BYTES, repeat=2)]
        for version in (4, 5):
            response = _response(side, "DescribeGroups", version, {"groups": [PLACE] * len(names)}, names)
            outcomes[f"groups v{version}: {first:x}"] = " ".join(sorted(each.group_id for each in response.groups))
        joined = _response(side, "JoinGroup", 4, JOINS, [bytes((first, 0xED, 0xA0))], PLACE)
        outcomes[f"client: {first:x}"] = joined.member_id.partition("-")[0]  # its rest is random
    return outcomes


def _response(side: Side, api: str, version: int, fields: Plain, names: Iterable[bytes], client_id: str = "client") -> Any:
    """Replaces each `PLACE` in a request by a name, and sends the request."""
    following = iter(names)
    with side.link() as wire:
        request = encode_request(1, client_id, plain(api, **fields), version)
        wire.send_bytes(re.sub(PLACE.encode(), lambda _: next(following), request))
        return decode_response(wire.frame(LATE_S), KEYS[api], version)[1]
