"""The codecs give back what went in, and stop at damage and at bombs."""

import contextlib
import gzip
import struct
import subprocess
import sys
from pathlib import Path

import aiokafka.codec  # type: ignore[import-untyped]
import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.model.errors import DecodeError
from barnabas.wire.records.compression import (
    CODEC_LEVELS,
    CODEC_NAMES,
    CODECS_BY_NAME,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Expander,
    compress,
    decompress,
)
from barnabas.wire.records.errors import UnknownCodecError

REAL_CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
codecs = pytest.mark.parametrize("codec", REAL_CODECS, ids=CODEC_NAMES.get)
LIMIT = 1 << 20
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def test_names_go_both_ways() -> None:
    assert [CODEC_NAMES[codec] for codec in range(5)] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert all(CODECS_BY_NAME[name] == codec for codec, name in CODEC_NAMES.items())


@pytest.mark.parametrize("codec", [NONE, *REAL_CODECS], ids=CODEC_NAMES.get)
@settings(max_examples=50)
@given(data=st.binary(max_size=2000), times=st.integers(1, 100))
def test_round_trip(codec: int, data: bytes, times: int) -> None:
    whole = data * times
    assert decompress(codec, compress(codec, memoryview(whole)), len(whole)) == whole


@codecs
def test_every_permitted_level_and_no_other(codec: int) -> None:
    data = b"the castle hill was veiled in mist and darkness " * 50
    levels = CODEC_LEVELS.get(codec)
    if levels is None:
        assert compress(codec, data, 5) == compress(codec, data)
        return
    for level in {levels.start, 1, levels.stop - 1}:
        assert decompress(codec, compress(codec, data, level), LIMIT) == data
    for level in (levels.start - 1, levels.stop):
        with pytest.raises(ValueError, match="levels"):
            compress(codec, data, level)


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_an_unknown_codec_is_told_apart(codec: int) -> None:
    with pytest.raises(UnknownCodecError):
        decompress(codec, b"data", LIMIT)
    with pytest.raises(ValueError, match="no compression codec"):
        compress(codec, b"data")


@pytest.mark.parametrize("codec", [NONE, *REAL_CODECS], ids=CODEC_NAMES.get)
def test_the_limit_is_exact(codec: int) -> None:
    data = b"0123456789" * 5000
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    for limit in (len(data) - 1, 10, 0):
        with pytest.raises(DecodeError):
            decompress(codec, packed, limit)


def test_one_expander_takes_batch_after_batch() -> None:
    """Whatever came before, be it larger, of another codec, or refused."""
    expander = Expander(1000)
    for size in (1000, 3, 0, 1000, 500):
        for codec in (NONE, *REAL_CODECS):
            data = bytes(range(size % 256)) + b"x" * (size - size % 256)
            assert expander.expand(codec, memoryview(compress(codec, data))).tobytes() == data
            if codec != NONE:
                with pytest.raises(DecodeError):
                    expander.expand(codec, memoryview(compress(codec, bytes(1001))))
                with pytest.raises(DecodeError):
                    expander.expand(codec, memoryview(b"nonsense"))


@codecs
def test_cut_short_at_every_byte(codec: int) -> None:
    packed = compress(codec, b"some words to be packed, some words to be packed")
    for size in range(len(packed)):
        if codec == SNAPPY and size == len(XERIAL_HEADER):
            # A stream of no blocks; that records are missing shows in the batch.
            assert decompress(codec, packed[:size], LIMIT) == b""
            continue
        with pytest.raises(DecodeError):
            decompress(codec, packed[:size], LIMIT)


@codecs
@settings(max_examples=50)
@given(data=st.binary(max_size=300))
def test_any_bytes_decode_or_are_refused(codec: int, data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        assert len(decompress(codec, data, LIMIT)) <= LIMIT


@codecs
@settings(max_examples=50)
@given(
    data=st.binary(min_size=1, max_size=200), where=st.integers(0, 10_000), bits=st.integers(1, 255)
)
def test_a_flipped_byte_decodes_or_is_refused(
    codec: int, data: bytes, where: int, bits: int
) -> None:
    packed = bytearray(compress(codec, data * 5))
    packed[where % len(packed)] ^= bits
    with contextlib.suppress(DecodeError):
        assert len(decompress(codec, packed, LIMIT)) <= LIMIT


@codecs
def test_rubbish_behind_the_data_is_refused(codec: int) -> None:
    with pytest.raises(DecodeError):
        decompress(codec, compress(codec, b"data" * 20) + b"\x07\x07\x07", LIMIT)


def test_raw_snappy_is_read_as_librdkafka_writes_it() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"raw and short " * 100))
    assert decompress(SNAPPY, raw, LIMIT) == b"raw and short " * 100


def test_snappy_is_written_in_blocks_of_at_most_32_kib() -> None:
    packed = compress(SNAPPY, bytes(100_000))
    assert packed.startswith(XERIAL_HEADER)
    position, sizes = len(XERIAL_HEADER), []
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        sizes.append(cramjam.snappy.decompress_raw_len(packed[position + 4 : position + 4 + size]))
        position += 4 + size
    assert sizes == [32768, 32768, 32768, 1696]


def test_xerial_streams_may_follow_one_another_with_any_version() -> None:
    first = compress(SNAPPY, b"first ")
    odd = b"\x82SNAPPY\x00" + struct.pack("<ii", 1, 1) + compress(SNAPPY, b"second")[16:]
    assert decompress(SNAPPY, first + odd, LIMIT) == b"first second"


@pytest.mark.parametrize(
    "blocks", [struct.pack(">i", -5), struct.pack(">i", 9) + b"short", struct.pack(">i", 0)]
)
def test_xerial_block_lengths_are_not_believed(blocks: bytes) -> None:
    with pytest.raises(DecodeError):
        decompress(SNAPPY, XERIAL_HEADER + blocks, LIMIT)


def test_a_snappy_size_that_lies_is_refused() -> None:
    claims_four_gibibytes = b"\xff\xff\xff\xff\x0f" + b"\x00a"
    for data in (
        claims_four_gibibytes,
        XERIAL_HEADER + struct.pack(">i", len(claims_four_gibibytes)) + claims_four_gibibytes,
    ):
        with pytest.raises(DecodeError):
            decompress(SNAPPY, data, LIMIT)


def test_lz4_frames_are_of_independent_blocks() -> None:
    flags = compress(LZ4, b"linked or not " * 10_000)[4]
    assert flags & 0b1100_0000 == 0b0100_0000, "frame version 1"
    assert flags & 0b0010_0000, "Java refuses blocks that are linked"


def test_gzip_is_the_common_format() -> None:
    assert gzip.decompress(compress(GZIP, b"common" * 9)) == b"common" * 9
    assert decompress(GZIP, gzip.compress(b"common" * 9), LIMIT) == b"common" * 9
    members = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(GZIP, members, LIMIT) == b"one two"


@given(data=st.binary(max_size=70_000))
def test_aiokafka_reads_ours_and_we_read_its(data: bytes) -> None:
    peer = aiokafka.codec
    # aiokafka takes a snappy stream of no blocks for raw data, but no client sends no records.
    if data:
        assert peer.snappy_decode(compress(SNAPPY, data)) == data
    assert peer.lz4_decode(compress(LZ4, data)) == data
    assert peer.zstd_decode(compress(ZSTD, data)) == data
    assert peer.gzip_decode(compress(GZIP, data)) == data
    assert decompress(SNAPPY, peer.snappy_encode(data), LIMIT) == data
    assert decompress(SNAPPY, peer.snappy_encode(data, xerial_compatible=False), LIMIT) == data
    assert decompress(LZ4, peer.lz4_encode(data), LIMIT) == data
    assert decompress(ZSTD, peer.zstd_encode(data), LIMIT) == data
    assert decompress(GZIP, peer.gzip_encode(data), LIMIT) == data


BOMB_PROBE = """
import resource, sys
from barnabas.model.errors import DecodeError
from barnabas.wire.records.compression import compress, decompress
codec, path = int(sys.argv[1]), sys.argv[2]
data = open(path, "rb").read()
decompress(codec, compress(codec, b"warm"), 1 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, data, 1 << 20)
except DecodeError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
else:
    print("no error")
"""


def memory_grown_kib(codec: int, bomb: Path) -> int:
    """By refusing the bomb, in a process of its own so that only this counts."""
    probe = [sys.executable, "-c", BOMB_PROBE, str(codec), str(bomb)]
    return int(subprocess.run(probe, capture_output=True, text=True, check=True).stdout)


@codecs
def test_a_bomb_is_refused_before_it_costs_memory(codec: int, tmp_path: Path) -> None:
    """A thousandfold where the format can: lz4 reaches 1:255 and snappy 1:21."""
    bomb = tmp_path / "bomb"
    bomb.write_bytes(compress(codec, bytes(64 << 20), 1 if codec in (GZIP, ZSTD) else None))
    assert memory_grown_kib(codec, bomb) < 8 * 1024


def test_a_zstd_window_of_128_mib_is_not_paid_for(tmp_path: Path) -> None:
    """Blocks of 128 KiB from four bytes each, in a frame that asks for the largest window."""
    frame_header = bytes.fromhex("28b52ffd 00 88")
    repeated = (1 << 1 | 128 * 1024 << 3).to_bytes(3, "little") + b"a"
    bomb = tmp_path / "bomb"
    bomb.write_bytes(frame_header + repeated * 3000)
    assert memory_grown_kib(ZSTD, bomb) < 8 * 1024
