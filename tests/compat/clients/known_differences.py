"""Where Barnabas answers otherwise than Apache Kafka, and why that is right or not yet otherwise.

Each pattern is matched against a line of the differential probe: scenario, field, both answers.
"""

import re
from collections.abc import Iterable
from typing import Final

KNOWN: Final[tuple[tuple[str, str], ...]] = (
    # Not served yet.
    (r"^ApiVersions v\d.*_features", "features are finalized when what they stand for is served"),
    (r"^DescribeConfigs v4, (client metrics|group|broker logger)", "resources not there"),
    (r"^ListConfigResources v1, loggers", "resources not there"),
    # Another design.
    (r"min\.insync\.replicas", "KRaft writes this default into the cluster's dynamic configs"),
    (r"^DescribeConfigs v4, broker, every key", "a broker has its own keys and defaults"),
    (r"local\.retention\.(ms|bytes)\.synonyms", "tiered storage keys have no broker default"),
    (r"^Produce v12, count says 4 of 3", "the records of a batch are not read on produce"),
    (r"^Produce v12, codec (gzip|zstd), but the bytes are not", "nor are they decompressed"),
    (r"^Produce v12, .*record_errors \(length\)", "so times are judged by the batch's header"),
    (r"^Metadata v12, auto creation, first answer", "the topic is made before the answer"),
    (r"^FindCoordinator v2, empty group", "so is the topic of offsets, when first asked for"),
    (r"^DescribeLogDirs.*total_bytes", "the size of the volume is not asked for"),
    # Kafka fails by accident where a reasoned answer is possible.
    (r"'UNKNOWN_SERVER_ERROR', Barnabas", "an exception that escaped in Kafka"),
    (r"^Produce v12, null records", "Kafka never answers this one"),
    # Kafka is laxer or stricter, to no client's gain.
    (r"^CreateTopics v7, name(s that)? collide", "Kafka forgets to look inside one request"),
    (r"cleanup\.policy=delete,delete", "said twice is a mistake"),
    (r"^DescribeConfigs v4, same resource twice", "one answer for each resource"),
)


def unexplained(lines: Iterable[str]) -> list[str]:
    """The differences that no row of the table explains."""
    return [line for line in lines if not any(re.search(row[0], line) for row in KNOWN)]
