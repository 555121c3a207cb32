"""Attacks: well-formed requests with something done to them, each made from a seed and a number."""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c
from tests.hostile.forms import Form
from tests.hostile.stranger import framed

from barnabas.wire.primitives import uvarint

_NUMBERS: Final = (
    0, 1, 2, 7, 8, 15, 16, 31, 32, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
    0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
_BYTES_MAX: Final = 4096
_CRC_AT: Final = 17
_CRC_FROM: Final = 21


@dataclass(frozen=True)
class Attack:
    """Bytes for a broker."""

    number: int
    kind: str
    form: str
    data: bytes
    ends: bool = False
    """The length in front is a lie, so that nothing can follow on this connection."""

    def __str__(self) -> str:
        return f"frame {self.number} ({self.kind} of {self.form}): {self.data.hex()}"

    @property
    def correlation_id(self) -> bytes:
        """What an answer must begin with."""
        return self.data[8:12]


def attack(seed: int, number: int, served: Sequence[Form], others: Sequence[Form]) -> Attack:
    """The attack of this number; the same for the same seed, whatever came before."""
    rng = random.Random(f"{seed}/{number}")
    form = rng.choice(served if rng.random() < 0.9 else others)
    if rng.random() < 0.05:
        return _with_false_length(rng, number, form)
    kind, mutate = rng.choice(_MUTATIONS)
    frame = mutate(rng, form, served)
    if rng.random() < 0.1:
        frame = _flip(rng, frame)
        kind += ", flipped"
    return Attack(number, kind, str(form), framed(frame))


def _with_false_length(rng: random.Random, number: int, form: Form) -> Attack:
    size = rng.choice(
        (rng.getrandbits(32), len(form.frame) + rng.randint(1, 2000), rng.randint(0, 9))
    )
    data = struct.pack(">I", size) + form.frame
    return Attack(number, "false length", str(form), data, ends=True)


def _flip(rng: random.Random, frame: bytes) -> bytes:
    """Turn over a few bits."""
    changed = bytearray(frame)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _flip_body(rng: random.Random, form: Form, _forms: Sequence[Form]) -> bytes:
    """Turn over a few bits behind the header."""
    if form.body_at >= len(form.frame):
        return form.frame
    return form.frame[: form.body_at] + _flip(rng, form.frame[form.body_at :])


def _flip_anywhere(rng: random.Random, form: Form, _forms: Sequence[Form]) -> bytes:
    return _flip(rng, form.frame)


def _truncate(rng: random.Random, form: Form, _forms: Sequence[Form]) -> bytes:
    return form.frame[: rng.randint(8, len(form.frame))]


def _splice(rng: random.Random, form: Form, forms: Sequence[Form]) -> bytes:
    """The beginning of one request, the end of another."""
    other = rng.choice(forms).frame
    return form.frame[: rng.randint(8, len(form.frame))] + other[rng.randint(0, len(other)) :]


def _lie_about_length(rng: random.Random, form: Form, forms: Sequence[Form]) -> bytes:
    """Another number where a length stands."""
    if not form.lengths:
        return _flip_anywhere(rng, form, forms)
    length = rng.choice(form.lengths)
    value = rng.choice(_NUMBERS)
    if form.is_flexible:
        patch = uvarint(value & 0xFFFFFFFF)
    else:
        patch = (value & (1 << 8 * length.size) - 1).to_bytes(length.size, "big")
    return form.frame[: length.at] + patch + form.frame[length.at + length.size :]


def _overwrite_number(rng: random.Random, form: Form, _forms: Sequence[Form]) -> bytes:
    """A number that is at an edge, somewhere."""
    size = rng.choice((1, 2, 4, 8))
    at = rng.randint(0, max(len(form.frame) - size, 0))
    patch = (rng.choice(_NUMBERS) & (1 << 8 * size) - 1).to_bytes(size, "big")
    return form.frame[:at] + patch + form.frame[at + size :]


def _random_tail(rng: random.Random, form: Form, _forms: Sequence[Form]) -> bytes:
    return form.frame[: rng.randint(8, len(form.frame))] + rng.randbytes(rng.randint(1, 200))


def _random_body(rng: random.Random, form: Form, _forms: Sequence[Form]) -> bytes:
    return form.frame[: form.body_at] + rng.randbytes(rng.randint(0, _BYTES_MAX))


def _random_bytes(rng: random.Random, _form: Form, _forms: Sequence[Form]) -> bytes:
    return rng.randbytes(rng.randint(8, _BYTES_MAX))


def _repeat_part(rng: random.Random, form: Form, _forms: Sequence[Form]) -> bytes:
    """The same stretch again and again."""
    start = rng.randrange(len(form.frame))
    end = rng.randint(start, len(form.frame))
    return form.frame[:end] + form.frame[start:end] * rng.randint(1, 20) + form.frame[end:]


def _delete_part(rng: random.Random, form: Form, _forms: Sequence[Form]) -> bytes:
    start = rng.randint(8, len(form.frame))
    return form.frame[:start] + form.frame[rng.randint(start, len(form.frame)) :]


def _other_version(rng: random.Random, form: Form, _forms: Sequence[Form]) -> bytes:
    """The right bytes under a wrong name."""
    version = rng.choice((-1, 0, 1, 2, form.version + 1, form.version - 1, rng.randint(0, 20)))
    return form.frame[:2] + struct.pack(">h", version) + form.frame[4:]


def _sound_checksum(rng: random.Random, form: Form, forms: Sequence[Form]) -> bytes:
    """A damaged record batch with a checksum that is right: the lie is told further inside."""
    start, end = form.records
    if end == 0:
        return _flip_body(rng, form, forms)
    batch = bytearray(form.frame[start:end])
    for _ in range(rng.choice((1, 1, 2, 6))):
        batch[rng.randrange(_CRC_FROM, len(batch))] = rng.getrandbits(8)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(bytes(batch[_CRC_FROM:])))
    return form.frame[:start] + bytes(batch) + form.frame[end:]


_MUTATIONS: Final[
    tuple[tuple[str, Callable[[random.Random, Form, Sequence[Form]], bytes]], ...]
] = (
    ("flipped bits", _flip_anywhere),
    ("flipped bits behind the header", _flip_body),
    ("truncation", _truncate),
    ("splice", _splice),
    ("lie about a length", _lie_about_length),
    ("lie about a length", _lie_about_length),
    ("number at an edge", _overwrite_number),
    ("random tail", _random_tail),
    ("random body", _random_body),
    ("random bytes", _random_bytes),
    ("repeated part", _repeat_part),
    ("missing part", _delete_part),
    ("another version", _other_version),
    ("damaged batch with a sound checksum", _sound_checksum),
)
