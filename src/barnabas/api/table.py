"""The APIs this broker serves: one row, one file. ApiVersions is derived from it.

A handler's module is imported when its API is first asked for: that keeps the start quick.
"""

from typing import Final

SERVED: Final[dict[int, str]] = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    10: "find_coordinator",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    32: "describe_configs",
    33: "alter_configs",
    35: "describe_log_dirs",
    37: "create_partitions",
    44: "incremental_alter_configs",
    60: "describe_cluster",
    61: "describe_producers",
    74: "list_config_resources",
    75: "describe_topic_partitions",
}
"""API key to the name of the module in this room that handles it."""
