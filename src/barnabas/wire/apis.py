"""The one table of the APIs on a Kafka 4.3 broker listener, with the versions that are spoken.

Everything else about versions is derived from here: headers, codecs, and what ApiVersions says.
Importing this module loads no message schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

PRODUCE: Final = 0
FETCH: Final = 1
API_VERSIONS: Final = 18


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its key, its name, the versions spoken, and the first flexible one."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int | None

    def speaks(self, version: int) -> bool:
        """Whether this version is within the range."""
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return self.flexible_from is not None and version >= self.flexible_from


def advertised_min(api: Api) -> int:
    """The least version ApiVersions names, which for Produce is less than the least spoken.

    librdkafka before 2.15 takes compression away unless Produce begins at 0 (KAFKA-18659), so
    Kafka names 0 and serves from 3 on.
    """
    return 0 if api.key == PRODUCE else api.min_version


# (key, name, min version, max version, first flexible version). InitProducerId stops at 5: Kafka
# holds version 6 back as unstable.
_ROWS: Final[tuple[tuple[int, str, int, int, int | None], ...]] = (
    (0, "produce", 3, 13, 9),
    (1, "fetch", 4, 18, 12),
    (2, "list_offsets", 1, 11, 6),
    (3, "metadata", 0, 13, 9),
    (8, "offset_commit", 2, 10, 8),
    (9, "offset_fetch", 1, 10, 6),
    (10, "find_coordinator", 0, 6, 3),
    (11, "join_group", 0, 9, 6),
    (12, "heartbeat", 0, 4, 4),
    (13, "leave_group", 0, 5, 4),
    (14, "sync_group", 0, 5, 4),
    (15, "describe_groups", 0, 6, 5),
    (16, "list_groups", 0, 5, 3),
    (17, "sasl_handshake", 0, 1, None),
    (18, "api_versions", 0, 4, 3),
    (19, "create_topics", 2, 7, 5),
    (20, "delete_topics", 1, 6, 4),
    (21, "delete_records", 0, 2, 2),
    (22, "init_producer_id", 0, 5, 2),
    (23, "offset_for_leader_epoch", 2, 4, 4),
    (24, "add_partitions_to_txn", 0, 5, 3),
    (25, "add_offsets_to_txn", 0, 4, 3),
    (26, "end_txn", 0, 5, 3),
    (27, "write_txn_markers", 1, 2, 1),
    (28, "txn_offset_commit", 0, 5, 3),
    (29, "describe_acls", 1, 3, 2),
    (30, "create_acls", 1, 3, 2),
    (31, "delete_acls", 1, 3, 2),
    (32, "describe_configs", 1, 4, 4),
    (33, "alter_configs", 0, 2, 2),
    (34, "alter_replica_log_dirs", 1, 2, 2),
    (35, "describe_log_dirs", 1, 5, 2),
    (36, "sasl_authenticate", 0, 2, 2),
    (37, "create_partitions", 0, 3, 2),
    (38, "create_delegation_token", 1, 3, 2),
    (39, "renew_delegation_token", 1, 2, 2),
    (40, "expire_delegation_token", 1, 2, 2),
    (41, "describe_delegation_token", 1, 3, 2),
    (42, "delete_groups", 0, 2, 2),
    (43, "elect_leaders", 0, 2, 2),
    (44, "incremental_alter_configs", 0, 1, 1),
    (45, "alter_partition_reassignments", 0, 1, 0),
    (46, "list_partition_reassignments", 0, 0, 0),
    (47, "offset_delete", 0, 0, None),
    (48, "describe_client_quotas", 0, 1, 1),
    (49, "alter_client_quotas", 0, 1, 1),
    (50, "describe_user_scram_credentials", 0, 0, 0),
    (51, "alter_user_scram_credentials", 0, 0, 0),
    (55, "describe_quorum", 0, 2, 0),
    (57, "update_features", 0, 2, 0),
    (60, "describe_cluster", 0, 2, 0),
    (61, "describe_producers", 0, 0, 0),
    (64, "unregister_broker", 0, 0, 0),
    (65, "describe_transactions", 0, 0, 0),
    (66, "list_transactions", 0, 2, 0),
    (68, "consumer_group_heartbeat", 0, 1, 0),
    (69, "consumer_group_describe", 0, 1, 0),
    (71, "get_telemetry_subscriptions", 0, 0, 0),
    (72, "push_telemetry", 0, 0, 0),
    (74, "list_config_resources", 0, 1, 0),
    (75, "describe_topic_partitions", 0, 0, 0),
    (76, "share_group_heartbeat", 1, 1, 0),
    (77, "share_group_describe", 1, 1, 0),
    (78, "share_fetch", 1, 2, 0),
    (79, "share_acknowledge", 1, 2, 0),
    (80, "add_raft_voter", 0, 1, 0),
    (81, "remove_raft_voter", 0, 0, 0),
    (83, "initialize_share_group_state", 0, 0, 0),
    (84, "read_share_group_state", 0, 0, 0),
    (85, "write_share_group_state", 0, 1, 0),
    (86, "delete_share_group_state", 0, 0, 0),
    (87, "read_share_group_state_summary", 0, 1, 0),
    (88, "streams_group_heartbeat", 0, 0, 0),
    (89, "streams_group_describe", 0, 0, 0),
    (90, "describe_share_group_offsets", 0, 1, 0),
    (91, "alter_share_group_offsets", 0, 0, 0),
    (92, "delete_share_group_offsets", 0, 0, 0),
)

APIS: Final[Mapping[int, Api]] = MappingProxyType({row[0]: Api(*row) for row in _ROWS})
"""Every API by its key, in the order of the keys."""
