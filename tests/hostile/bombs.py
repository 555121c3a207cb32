"""Record batches that are not what they say: in their records, their counts, their sizes."""

import struct
from functools import cache
from typing import Any, Final

from tests.chaos.talk import batch_of

from barnabas.wire.records.batch import assemble, parse_header
from barnabas.wire.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress

CODECS: Final = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
_CHUNK: Final = bytes(1024 * 1024)


def batch_with(records: bytes, **header: Any) -> bytes:
    """A batch of these bytes as its records, sound in length and CRC, with other header fields."""
    plain = parse_header(batch_of(b"x"))
    return assemble(plain._replace(**header), records)


MEBIBYTES: Final = {"gzip": 150, "snappy": 18, "lz4": 100, "zstd": 700}
"""To what a bomb expands. All but snappy's are more than may be inflated, in a batch small enough
to be taken: snappy makes zeros twenty times smaller at best, so it has no bombs."""


@cache
def bomb(name: str) -> bytes:
    """A batch whose records expand to many mebibytes of zeros."""
    codec, mebibytes = CODECS[name], MEBIBYTES[name]
    expand = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}[codec]
    return batch_with(expand(mebibytes), attributes=codec)


def _gzip(mebibytes: int) -> bytes:
    import zlib

    squeezer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(squeezer.compress(_CHUNK) for _ in range(mebibytes)) + squeezer.flush()


def _snappy(mebibytes: int) -> bytes:
    """The same block again and again, in the framing of the Java client."""
    import cramjam

    block = bytes(cramjam.snappy.compress_raw(_CHUNK))
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return header + (struct.pack(">i", len(block)) + block) * mebibytes


def _lz4(mebibytes: int) -> bytes:
    import cramjam

    squeezer = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    for _ in range(mebibytes):
        squeezer.compress(_CHUNK)
    return bytes(squeezer.finish())


def _zstd(mebibytes: int) -> bytes:
    import cramjam

    squeezer = cramjam.zstd.Compressor(3)
    for _ in range(mebibytes):
        squeezer.compress(_CHUNK)
    return bytes(squeezer.finish())


def lying_snappy(claim: int) -> bytes:
    """Raw snappy that claims to expand to `claim` bytes and holds next to none."""
    from barnabas.wire.primitives import uvarint

    return uvarint(claim) + b"\x00x"


def corrupt(codec: int) -> bytes:
    """Compressed records with a byte of their middle turned over."""
    data = bytearray(compress(codec, bytes(range(256)) * 64))
    data[len(data) // 2] ^= 0xFF
    return bytes(data)
