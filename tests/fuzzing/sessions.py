"""Makes captures and frames, valid and damaged, for the code that reads captures and for the command `decode`."""

from __future__ import annotations

import base64
import io
from random import Random

from hypothesis import strategies as st

from kafkawire.errors import EncodeError
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import APIS
from kafkawire.messages.api_versions import ApiVersionsResponse
from kafkawire.registry import api_name, request_class, response_class
from wire.random_messages import Maker, damaged, versions_of
from wirebroker_tools.capture.recording import capture_in

CLIENT, SERVER = ("127.0.0.1", 50_000), ("127.0.0.1", 9092)
NOW = 1_800_000_000_000_000
Chosen = tuple[int, int, int]
"""An API, a number that chooses a version, and a seed."""
CHOSEN = st.tuples(st.sampled_from(sorted(APIS)), st.integers(0, 20), st.integers(0, 1 << 16))


def frames_of(chosen: Chosen) -> tuple[int, bytes, bytes]:
    """Makes a request and its response in a version. Both are empty if the request or the response cannot be encoded."""
    key, number, seed = chosen
    known = [each for each in versions_of(request_class(key)) if each in versions_of(response_class(key))]
    version = known[number % len(known)]
    try:
        request = Maker((key, version, seed)).message(request_class(key), version)
        response = Maker((key, version, seed + 1)).message(response_class(key), version)
        if isinstance(response, ApiVersionsResponse):
            response.error_code = 0
        return version, encode_request(seed, "client", request, version), b"".join(encode_response(seed, response, version))
    except EncodeError:
        return version, b"", b""


def capture_of(exchanges: list[Chosen], harm: int) -> bytes:
    """Returns a capture of these requests and responses on one connection. With `harm`, the capture is damaged."""
    file = io.BytesIO()
    conversation = capture_in(file).opened(CLIENT, SERVER, NOW)
    for number, each in enumerate(exchanges):
        _, request, response = frames_of(each)
        conversation.from_client(request, NOW + number)
        conversation.to_client(response, NOW + number)
    conversation.closed(NOW + len(exchanges), by_server=bool(harm % 2))
    return damaged(file.getvalue(), Random(harm)) if harm else file.getvalue()


def decoded_words(chosen: Chosen, harm: int, form: int) -> list[str]:
    """Returns the command line of `decode` for a request or a response. `form` chooses among hex, Base64 and Python's repr."""
    version, request, response = frames_of(chosen)
    data = response if form % 2 else request
    data = damaged(data, Random(harm)) if harm else data
    text = (data.hex(), base64.b64encode(data).decode(), repr(data), data.hex(" "))[form // 2 % 4]
    words = ["decode", text or "00", *(["--json"] if form % 3 else [])]
    return [*words, "--api", api_name(chosen[0]), "--version", str(version)] if form % 2 else words


CAPTURES = st.builds(capture_of, st.lists(CHOSEN, max_size=4), st.integers(0, 1 << 20))
DECODED = st.builds(decoded_words, CHOSEN, st.integers(0, 1 << 20), st.integers(0, 47))
