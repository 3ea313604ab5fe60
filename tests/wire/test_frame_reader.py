"""The frame reader finds the frames in a connection's data, even if the data arrives in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import ProtocolError
from kafkawire.frames import SIZE, FrameReader


@given(st.lists(st.binary(max_size=20), max_size=5), st.lists(st.integers(0, 130), max_size=6))
def test_frames_do_not_depend_on_the_pieces_in_which_bytes_arrive(bodies: list[bytes], cuts: list[int]) -> None:
    frames = [SIZE.pack(len(body)) + body for body in bodies]
    stream, reader, found, begin = b"".join(frames), FrameReader(), [], 0
    for end in [*sorted(cuts), len(stream)]:
        reader.feed(stream[begin:end])
        begin = max(begin, end)
        while (frame := reader.next()) is not None:
            found.append(frame)
    assert found == frames
    assert not reader.tail


@pytest.mark.parametrize("size", [-1, 0, 11])
def test_a_frame_before_an_impossible_size_is_read(size: int) -> None:
    reader = FrameReader(most=10, least=1)
    reader.feed(SIZE.pack(1) + b"a" + SIZE.pack(size))
    assert reader.next() == SIZE.pack(1) + b"a"
    with pytest.raises(ProtocolError, match=f"announces {size} bytes"):
        reader.next()
