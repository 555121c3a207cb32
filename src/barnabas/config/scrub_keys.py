"""The broker keys about looking through old logs for damage."""

from typing import Final

from barnabas.config import checks
from barnabas.config.keys import ConfigType, Key, Update

# fmt: off
SCRUB_KEYS: Final = (
    Key(name="log.scrub.interval.ms", type=ConfigType.LONG, default=24 * 60 * 60 * 1000,
        doc="How often every replicated log is read and its checksums are compared, so that damage "
            "on a disk is noticed while another replica can mend it; -1: never.",
        check=checks.at_least(-1), update=Update.CLUSTER_WIDE),
    Key(name="log.scrub.max.bytes.per.second", type=ConfigType.LONG, default=32 * 1024 * 1024,
        doc="What that reads in a second, so that the disk has time for others.",
        check=checks.at_least(1), update=Update.CLUSTER_WIDE),
)
# fmt: on
