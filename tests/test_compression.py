"""The codecs. wirebroker and other libraries decompress what wirebroker compresses. Decompression stops at its limit, and
messages name the damage.
"""

from __future__ import annotations

import contextlib
import random
import re
import struct
import sys
import tracemalloc
import zlib
from importlib import import_module

import aiokafka.codec
import cramjam
import kafka.codec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.compression import (
    GZIP,
    LZ4,
    NAMES,
    SNAPPY,
    ZSTD,
    CodecMissing,
    TooLarge,
    compress,
    decompress,
)
from kafkawire.errors import ProtocolError
from kafkawire.extras import how_to_install

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
EVERY_CODEC = pytest.mark.parametrize("codec", CODECS, ids=NAMES[1:])
_words = random.Random(2)
WORDS = [bytes(_words.choices(b"abcdefghijklmnop", k=_words.randint(2, 9))) for _ in range(500)]
TEXT = b" ".join(_words.choices(WORDS, k=30_000))
LIMIT = 1 << 20

CLIENTS_READ = {
    GZIP: [kafka.codec.gzip_decode, aiokafka.codec.gzip_decode],
    SNAPPY: [aiokafka.codec.snappy_decode],
    LZ4: [aiokafka.codec.lz4_decode],
    ZSTD: [aiokafka.codec.zstd_decode],
}
CLIENTS_WRITE = {
    GZIP: [kafka.codec.gzip_encode, aiokafka.codec.gzip_encode],
    SNAPPY: [aiokafka.codec.snappy_encode],
    LZ4: [aiokafka.codec.lz4_encode],
    ZSTD: [aiokafka.codec.zstd_encode],
}


def lz4_frame(data: bytes, *, linked: bool = False, checksum: bool = True) -> bytes:
    """Returns an lz4 frame that cramjam writes. If `linked` is true, its blocks are linked. If `checksum` is true, it has a
    content checksum."""
    machine = cramjam.lz4.Compressor(block_linked=linked, content_checksum=checksum)
    machine.compress(data)
    return bytes(machine.finish())


@EVERY_CODEC
@settings(max_examples=60)
@given(data=st.binary(max_size=2000), times=st.sampled_from([1, 1, 50, 300]), level=st.sampled_from([None, 1, 9]))
def test_what_is_folded_unfolds_again(codec: int, data: bytes, times: int, level: int | None) -> None:
    plain = data * times
    folded = compress(codec, plain, level)
    assert decompress(codec, memoryview(folded), len(plain)) == plain


@EVERY_CODEC
def test_clients_read_what_is_folded(codec: int) -> None:
    for read in CLIENTS_READ[codec]:
        assert bytes(read(compress(codec, TEXT))) == TEXT


@EVERY_CODEC
def test_what_clients_fold_is_read(codec: int) -> None:
    for write in CLIENTS_WRITE[codec]:
        assert decompress(codec, write(TEXT), len(TEXT)) == TEXT


@EVERY_CODEC
def test_the_limit_is_exact(codec: int) -> None:
    folded = compress(codec, TEXT)
    assert decompress(codec, folded, len(TEXT)) == TEXT
    with pytest.raises(TooLarge):
        decompress(codec, folded, len(TEXT) - 1)


@EVERY_CODEC
def test_a_level_makes_a_difference_where_a_codec_has_levels(codec: int) -> None:
    if codec == SNAPPY:
        assert compress(codec, TEXT, 1) == compress(codec, TEXT, 9)
    else:
        assert len(compress(codec, TEXT, 12 if codec > GZIP else 9)) < len(compress(codec, TEXT, 1))


def bomb_of(codec: int) -> bytes:
    """Returns data that decompresses to 200 MB. It is put together from compressed parts, so that the test does not need 200
    MB.
    """
    part = bytes(1 << 20)
    if codec in (GZIP, ZSTD):
        return compress(codec, part) * 200
    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(part))
        return compress(codec, b"")[:16] + (struct.pack(">i", len(block)) + block) * 200
    header, blocks = lz4_frame(part)[:7], lz4_frame(part)[7:-8]
    return header + blocks * 200 + bytes(8)


@EVERY_CODEC
def test_a_bomb_is_refused_within_bounded_memory(codec: int) -> None:
    bomb = bomb_of(codec)
    assert len(bomb) < 12 << 20
    tracemalloc.start()
    with pytest.raises(TooLarge):
        decompress(codec, bomb, LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * LIMIT


def test_a_single_snappy_block_is_held_to_the_size_that_it_announces() -> None:
    liar = b"\xff\xff\xff\xff\x07" + bytes(cramjam.snappy.compress_raw(b"short"))[1:]
    with pytest.raises(TooLarge):
        decompress(SNAPPY, liar, LIMIT)
    with pytest.raises(ProtocolError):
        decompress(SNAPPY, b"\x40" + bytes(cramjam.snappy.compress_raw(b"short"))[1:], LIMIT)


@EVERY_CODEC
@settings(max_examples=150)
@given(data=st.data())
def test_damage_raises_nothing_but_protocol_errors(codec: int, data: st.DataObject) -> None:
    folded = bytearray(compress(codec, TEXT[:3000]))
    for place in data.draw(st.lists(st.integers(0, len(folded) - 1), min_size=1, max_size=4)):
        folded[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(folded)))
    with contextlib.suppress(ProtocolError):
        assert len(decompress(codec, folded[:cut], LIMIT)) <= LIMIT


@EVERY_CODEC
@pytest.mark.parametrize("size", [1, 5, 100])
def test_random_bytes_are_of_no_codec(codec: int, size: int) -> None:
    with pytest.raises(ProtocolError):
        decompress(codec, random.Random(size).randbytes(size), LIMIT)


READ_AS_JAVA_READS = {
    "gzip, two members": (GZIP, compress(GZIP, b"one ") + compress(GZIP, b"two"), b"one two"),
    "gzip, garbage behind": (GZIP, compress(GZIP, b"one") + b"garbage", b"one"),
    "snappy, raw": (SNAPPY, bytes(cramjam.snappy.compress_raw(b"one")), b"one"),
    "snappy, two streams": (SNAPPY, compress(SNAPPY, b"one ") + compress(SNAPPY, b"two"), b"one two"),
    "snappy, two blocks": (SNAPPY, compress(SNAPPY, b"one ") + compress(SNAPPY, b"two")[16:], b"one two"),
    "lz4, garbage behind": (LZ4, compress(LZ4, b"one") + b"garbage", b"one"),
    "lz4, a second frame after the first": (LZ4, compress(LZ4, b"one") * 2, b"one"),
    "lz4, with checksums": (LZ4, lz4_frame(TEXT), TEXT),
    "lz4, content checksum not looked at": (LZ4, lz4_frame(b"one")[:-4] + bytes(4), b"one"),
    "lz4, many blocks": (LZ4, compress(LZ4, TEXT), TEXT),
    "lz4, stored blocks": (LZ4, compress(LZ4, random.Random(1).randbytes(70_000)), random.Random(1).randbytes(70_000)),
    "zstd, two frames": (ZSTD, compress(ZSTD, b"one ") + compress(ZSTD, b"two"), b"one two"),
    "zstd, nothing": (ZSTD, b"", b""),
}
"""Compressed data that Kafka 4.3.1 accepted in a batch."""


@pytest.mark.parametrize(("codec", "data", "plain"), READ_AS_JAVA_READS.values(), ids=READ_AS_JAVA_READS)
def test_a17_what_kafka_reads_is_read(codec: int, data: bytes, plain: bytes) -> None:
    assert decompress(codec, data, LIMIT) == plain


FOLDED = {codec: compress(codec, TEXT[:500]) for codec in CODECS}
REFUSED_AS_BY_JAVA = {
    "gzip, nothing": (GZIP, b""),
    "gzip, a byte short": (GZIP, FOLDED[GZIP][:-1]),
    "gzip, wrong length at the end": (GZIP, FOLDED[GZIP][:-1] + b"\x77"),
    "gzip, second member cut short": (GZIP, FOLDED[GZIP] + FOLDED[GZIP][:30]),
    "gzip, in fact zlib": (GZIP, zlib.compress(TEXT)),
    "snappy, nothing": (SNAPPY, b""),
    "snappy, a byte short": (SNAPPY, FOLDED[SNAPPY][:-1]),
    "snappy, garbage behind": (SNAPPY, FOLDED[SNAPPY] + b"garbage"),
    "snappy, an empty block at the end": (SNAPPY, FOLDED[SNAPPY] + bytes(8)),
    "snappy, in its other framing": (SNAPPY, bytes(cramjam.snappy.compress(TEXT))),
    "lz4, nothing": (LZ4, b""),
    "lz4, linked blocks": (LZ4, lz4_frame(TEXT, linked=True)),
    "lz4, without an end": (LZ4, FOLDED[LZ4][:-4]),
    "lz4, a byte short": (LZ4, FOLDED[LZ4][:-1]),
    "lz4, content checksum cut short": (LZ4, lz4_frame(b"one")[:-1]),
    "lz4, wrong checksum of the header": (LZ4, FOLDED[LZ4][:6] + b"\x83" + FOLDED[LZ4][7:]),
    "lz4, blocks of no size": (LZ4, FOLDED[LZ4][:5] + b"\x30" + FOLDED[LZ4][6:]),
    "lz4, of a later version": (LZ4, FOLDED[LZ4][:4] + b"\xa0" + FOLDED[LZ4][5:]),
    "zstd, a byte short": (ZSTD, FOLDED[ZSTD][:-1]),
    "zstd, garbage behind": (ZSTD, FOLDED[ZSTD] + b"garbage"),
    "no codec": (5, b""),
}


@pytest.mark.parametrize(("codec", "data"), REFUSED_AS_BY_JAVA.values(), ids=REFUSED_AS_BY_JAVA)
def test_a17_what_kafka_does_not_read_is_the_peers_mistake(codec: int, data: bytes) -> None:
    with pytest.raises(ProtocolError) as raised:
        decompress(codec, data, LIMIT)
    assert not isinstance(raised.value, TooLarge)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (lz4_frame(TEXT, linked=True), "the blocks of the lz4 frame are linked, and Kafka's brokers and Java clients do not"),
        (FOLDED[LZ4][:4] + b"\xa0" + FOLDED[LZ4][5:], "the lz4 frame has version 2"),
        (FOLDED[LZ4][:4] + b"\x61" + FOLDED[LZ4][5:], "the lz4 frame has a dictionary"),
    ],
    ids=["linked", "version", "dictionary"],
)
def test_it_is_said_what_is_wrong_with_an_lz4_frame(frame: bytes, words: str) -> None:
    """Some tools write linked blocks by default, so the message must say that the blocks are linked."""
    with pytest.raises(ProtocolError, match=words):
        decompress(LZ4, frame, LIMIT)


def test_lz4_blocks_are_written_independent_of_each_other() -> None:
    """Java clients read only independent blocks. The header also says: version 1, no content checksum, blocks of 64 KiB."""
    assert FOLDED[LZ4].startswith(b"\x04\x22\x4d\x18\x70\x40")


def test_there_is_no_fifth_codec_to_write() -> None:
    with pytest.raises(ValueError, match="compression 5"):
        compress(5, b"x")


@pytest.mark.parametrize("codec", [SNAPPY, LZ4, ZSTD], ids=["snappy", "lz4", "zstd"])
def test_a_missing_codec_says_how_to_get_it(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(CodecMissing, match=re.escape(how_to_install("codecs"))):
        compress(codec, b"x")
    with pytest.raises(CodecMissing, match=f"{NAMES[codec]} needs a codec"):
        decompress(codec, FOLDED[codec], LIMIT)


def test_gzip_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert decompress(GZIP, compress(GZIP, TEXT), LIMIT) == TEXT


def test_zstd_of_the_standard_library_serves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has the module from version 3.14 on. In earlier versions the test uses the backport if it is installed."""
    pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    if sys.version_info < (3, 14):
        monkeypatch.setitem(sys.modules, "compression.zstd", import_module("backports.zstd"))
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert decompress(ZSTD, compress(ZSTD, b"one ") + compress(ZSTD, b"two", 9), 7) == b"one two"
    for damaged in (FOLDED[ZSTD][:-1], FOLDED[ZSTD] + b"garbage"):
        with pytest.raises(ProtocolError):
            decompress(ZSTD, damaged, LIMIT)
    with pytest.raises(TooLarge):
        decompress(ZSTD, bomb_of(ZSTD), LIMIT)
