"""The broker keys about log compaction, and what they say together."""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import float_info
from typing import Any, Final

from barnabas.config import checks
from barnabas.config.keys import Check, ConfigType, Key, Update, Value

_B, _I, _L, _D = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """What a broker's configuration says about compaction; the defaults are Kafka's."""

    enable: bool = True
    backoff_ms: int = 15_000
    dedupe_buffer_size: int = 128 * 1024 * 1024
    io_buffer_load_factor: float = 0.9
    io_buffer_size: int = 512 * 1024
    io_max_bytes_per_second: float = float_info.max


_DEFAULT: Final = CleanerSettings()


def _key(name: str, type_: ConfigType, default: Value, doc: str, check: Check | None = None) -> Key:
    return Key(
        name=name, type=type_, default=default, doc=doc, check=check, update=Update.CLUSTER_WIDE
    )


# fmt: off
CLEANER_KEYS: Final = (
    Key(name="log.cleaner.enable", type=_B, default=_DEFAULT.enable,
        doc="Whether topics with `cleanup.policy=compact` are compacted; without it they and the "
            "internal topics grow for ever."),
    Key(name="log.cleaner.threads", type=_I, default=1,
        doc="How many logs are compacted at once.",
        refusal="one log is compacted at a time, in a process of its own"),
    _key("log.cleaner.backoff.ms", _L, _DEFAULT.backoff_ms,
         "How long the cleaner rests when no log is dirty enough.", checks.at_least(0)),
    _key("log.cleaner.dedupe.buffer.size", _L, _DEFAULT.dedupe_buffer_size,
         "Memory for the keys of one log's dirty part; what does not fit is compacted next time.",
         checks.at_least(1)),
    _key("log.cleaner.io.buffer.load.factor", _D, _DEFAULT.io_buffer_load_factor,
         "How full that memory may get: fuller holds more keys, and finds them more slowly.",
         checks.between(0.01, 1)),
    _key("log.cleaner.io.buffer.size", _I, _DEFAULT.io_buffer_size,
         "Memory for reading and writing while a log is compacted.", checks.at_least(0)),
    _key("log.cleaner.io.max.bytes.per.second", _D, _DEFAULT.io_max_bytes_per_second,
         "What compaction reads and writes in a second, on average, so that the disk has time for "
         "others.",
         checks.at_least(1)),
)
# fmt: on


def read_cleaner_settings(values: Mapping[str, Any]) -> CleanerSettings:
    """The settings among a broker's values."""
    return CleanerSettings(
        enable=values["log.cleaner.enable"],
        backoff_ms=values["log.cleaner.backoff.ms"],
        dedupe_buffer_size=values["log.cleaner.dedupe.buffer.size"],
        io_buffer_load_factor=values["log.cleaner.io.buffer.load.factor"],
        io_buffer_size=values["log.cleaner.io.buffer.size"],
        io_max_bytes_per_second=values["log.cleaner.io.max.bytes.per.second"],
    )
