"""The four codecs of a record batch: gzip, snappy, lz4 and zstd, bounded on the way out.

What a compressed batch claims about its size is a stranger's word. So output goes into an
anonymous mapping of the permitted size, of which only the pages really written cost memory,
and a codec that wants to write past its end is stopped there.
"""

import mmap
import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from barnabas.model.errors import DecodeError
from barnabas.wire.records.batch import Buffer
from barnabas.wire.records.errors import UnknownCodecError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

CODEC_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
)
CODECS_BY_NAME: Final[Mapping[str, int]] = MappingProxyType(
    {name: codec for codec, name in CODEC_NAMES.items()}
)
CODEC_LEVELS: Final[Mapping[int, range]] = MappingProxyType(
    {GZIP: range(1, 10), LZ4: range(1, 18), ZSTD: range(-131072, 23)}
)
"""The levels Kafka's `compression.<codec>.level` permits; snappy has none."""

_LZ4_LEVEL_FAST: Final = 1
_LZ4_LEVEL_DEFAULT: Final = 9
_ZSTD_LEVEL_DEFAULT: Final = 3
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """What `data` expands to; DecodeError when it is corrupt or more than `limit` bytes."""
    if codec == NONE:
        if len(data) > limit:
            raise DecodeError(f"more than {limit} bytes of records")
        return bytes(data)
    # A mapping can not be empty, hence at least one byte; the length is compared once more.
    with mmap.mmap(-1, max(limit, 1)) as output:
        return output[: _expand(codec, data, output, limit)]


class Expander:
    """Expands one batch after the other into the same memory, which is cheaper than new memory.

    For readers of many batches. As with `decompress`, nothing expands past `limit`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._output: mmap.mmap | None = None

    def expand(self, codec: int, data: memoryview) -> memoryview:
        """What `data` expands to, good until the next call; DecodeError as `decompress`."""
        if codec == NONE:
            return data
        if self._output is None:
            self._output = mmap.mmap(-1, max(self._limit, 1))
        size = _expand(codec, data, self._output, self._limit)
        return memoryview(self._output)[:size]


def _expand(codec: int, data: Buffer, output: mmap.mmap, limit: int) -> int:
    expand = _EXPANDERS.get(codec)
    if expand is None:
        raise UnknownCodecError(f"there is no compression codec {codec}")
    import cramjam

    try:
        size = expand(data, output)
    except cramjam.DecompressionError as error:
        raise DecodeError(
            f"{CODEC_NAMES[codec]} data is corrupt or expands past {limit} bytes: {error}"
        ) from error
    if size > limit:
        raise DecodeError(f"{CODEC_NAMES[codec]} data expands past {limit} bytes")
    return size


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` in a form that every Kafka client reads; no `level` means Kafka's default."""
    if codec == NONE:
        return bytes(data)
    shrink = _SHRINKERS.get(codec)
    if shrink is None:
        raise ValueError(f"there is no compression codec {codec}")
    if level is not None and codec in CODEC_LEVELS and level not in CODEC_LEVELS[codec]:
        levels = CODEC_LEVELS[codec]
        raise ValueError(
            f"{CODEC_NAMES[codec]} has levels {levels.start} to {levels.stop - 1}, not {level}"
        )
    return shrink(data, level)


def _expand_gzip(data: Buffer, output: mmap.mmap) -> int:
    import cramjam

    return cramjam.gzip.decompress_into(data, output)


def _expand_lz4(data: Buffer, output: mmap.mmap) -> int:
    import cramjam

    return cramjam.lz4.decompress_into(data, output)


def _expand_zstd(data: Buffer, output: mmap.mmap) -> int:
    import cramjam

    return cramjam.zstd.decompress_into(data, output)


def _expand_snappy(data: Buffer, output: mmap.mmap) -> int:
    """Raw snappy (librdkafka, franz-go) or the xerial framing around it (Java and most others)."""
    import cramjam

    view = memoryview(data)
    if not _is_xerial(view, 0):
        return cramjam.snappy.decompress_raw_into(view, output)
    with memoryview(output) as room:
        return _expand_xerial(view, room)


def _is_xerial(view: memoryview, position: int) -> bool:
    return view[position : position + len(_XERIAL_MAGIC)].tobytes() == _XERIAL_MAGIC


def _expand_xerial(view: memoryview, room: memoryview) -> int:
    """Blocks of raw snappy, each behind its length; streams may follow one another."""
    import cramjam

    # The two version numbers are skipped unread: some writers have them in the wrong byte order,
    # and there has only ever been one version.
    position, written = len(_XERIAL_HEADER), 0
    if len(view) < position:
        raise DecodeError("snappy data is cut short in its header")
    while position < len(view):
        if _is_xerial(view, position):
            position += len(_XERIAL_HEADER)
            continue
        if len(view) - position < _BLOCK_LENGTH.size:
            raise DecodeError("snappy data is cut short in a block length")
        (size,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= size <= len(view) - position:
            raise DecodeError(f"a snappy block of {size} bytes is not there")
        with room[written:] as rest:
            written += cramjam.snappy.decompress_raw_into(view[position : position + size], rest)
        position += size
    if position != len(view):
        raise DecodeError("snappy data is cut short in its header")
    return written


def _shrink_gzip(data: Buffer, level: int | None) -> bytes:
    import cramjam

    return bytes(cramjam.gzip.compress(data, level=level))


def _shrink_snappy(data: Buffer, _level: int | None) -> bytes:
    """The xerial framing: it is what Java writes, so every other client has to read it."""
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _shrink_lz4(data: Buffer, level: int | None) -> bytes:
    """Frames of independent blocks: Java refuses linked ones."""
    import cramjam

    # Kafka's default level, 9, stands for the fast compressor and not for the ninth level.
    fast = level is None or level == _LZ4_LEVEL_DEFAULT
    compressor = cramjam.lz4.Compressor(
        level=_LZ4_LEVEL_FAST if fast else level, content_checksum=False, block_linked=False
    )
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _shrink_zstd(data: Buffer, level: int | None) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL_DEFAULT if level is None else level))


_EXPANDERS: Final[Mapping[int, Callable[[Buffer, mmap.mmap], int]]] = {
    GZIP: _expand_gzip,
    SNAPPY: _expand_snappy,
    LZ4: _expand_lz4,
    ZSTD: _expand_zstd,
}
_SHRINKERS: Final[Mapping[int, Callable[[Buffer, int | None], bytes]]] = {
    GZIP: _shrink_gzip,
    SNAPPY: _shrink_snappy,
    LZ4: _shrink_lz4,
    ZSTD: _shrink_zstd,
}
