"""The bytes of an exchange, field by field. The control keeps the bytes while a client reads /events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated

from kafkawire.errors import ProtocolError
from kafkawire.frames import SIZE
from wirebroker.control.controlled import Readable
from wirebroker.control.forms import Form, about
from wirebroker.control.problems import Problem
from wirebroker.trace.kept_frames import KeptExchange
from wirebroker_tools.capture.secrets import SECRET_APIS, redacted_request, redacted_response
from wirebroker_tools.decode.frames import decode_all
from wirebroker_tools.decode.positions import Position, request_positions, response_positions
from wirebroker_tools.decode.show import lines

MOST_BYTES = 16 * 1024
"""At most this many bytes of a frame are shown."""
MOST_FIELDS = 2000
"""At most this many fields of a frame are shown."""


class FieldAt(Form):
    """A field and its bytes."""

    name: str
    depth: Annotated[int, about("the depth at which the field is nested")]
    value: str
    start: Annotated[int, about("the position of the field's first byte in the frame; the four bytes of the size do not count")]
    end: Annotated[int, about("the position after the field's last byte")]


class Frame(Form):
    """A request or a response."""

    size: Annotated[int, about("the number of bytes, without the four bytes of the size")]
    lines: Annotated[list[str], about("the frame's fields as text, with its records")]
    fields: Annotated[list[FieldAt], about("the frame's fields with their positions")]
    hex: Annotated[str, about("the frame's first 16 KiB")]
    damage: Annotated[str, about("the reason why a part of the frame cannot be read; empty if the whole frame can be read")]


class ShownExchange(Form):
    """A request with its response."""

    request: Frame
    response: Frame


class OfRun(Form):
    """The run to which the row's number belongs."""

    run: Annotated[str, about("the run's name, as in the first event of /events; by default the present run")] = ""


def exchange(controlled: Readable, number: int, query: OfRun) -> ShownExchange:
    """Returns the bytes of an exchange, field by field. `number` is the number of the exchange's `reply` row.

    The control keeps the latest 64 MiB while a client reads /events, and always with `--capture`. A saved capture has all
    bytes. Credentials are replaced by `*`.
    """
    kept = kept_exchange(controlled, number, query.run)
    if kept is None:
        raise Problem(404, f"there are no bytes of exchange {number}: {controlled.why_no_bytes()}", "number")
    request, response = _without_secrets(kept)
    key, version = kept.about.api_key, kept.about.version
    return ShownExchange(
        _frame(request, lambda: request_positions(request), None, None),
        _frame(response, lambda: response_positions(response, key, version), str(key), version),
    )


def kept_exchange(controlled: Readable, number: int, run: str) -> KeptExchange | None:
    """Returns the exchange whose `reply` row has this number in the run `run`, or None if the exchange is not kept. The name ""
    stands for the present run.
    """
    return controlled.exchange(number) if run in ("", controlled.run) else None


def _without_secrets(kept: KeptExchange) -> tuple[bytes, bytes]:
    """Returns the bytes of the request and the response, without their four bytes of size."""
    request, response = SIZE.pack(len(kept.request)) + kept.request, kept.response
    if kept.about.api_key in SECRET_APIS:
        request, response = redacted_request(request), redacted_response(response, kept.about.api_key, kept.about.version)
    return request[SIZE.size :], response[SIZE.size :]


def _frame(data: bytes, positions: Callable[[], Iterator[Position]], api: str | None, version: int | None) -> Frame:
    damage, text, fields = "", [], []
    try:
        text = [each for decoded in decode_all(data, api, version) for each in islice(lines(decoded), MOST_FIELDS)]
        fields = [FieldAt(*each) for each in islice(positions(), MOST_FIELDS)]
    except (ProtocolError, KeyError) as unreadable:
        damage = str(unreadable)
    return Frame(len(data), text, fields, data[:MOST_BYTES].hex(), damage)
