"""Any record of the offsets topic, for hypothesis."""

from hypothesis import strategies as st

from barnabas.wire.stored import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMember,
    ConsumerGroupMemberValue,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegex,
    ConsumerGroupRegexValue,
    CurrentMemberAssignment,
    CurrentMemberAssignmentValue,
    GroupMetadata,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommit,
    OffsetValue,
    OwnedPartitions,
    Stored,
    TargetAssignmentMember,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadata,
    TargetAssignmentMetadataValue,
)
from barnabas.wire.stored.consumer_protocol import Subscription

names = st.text(max_size=20)
texts = st.text(max_size=200)
maybe_names = st.none() | names
blobs = st.binary(max_size=40)
ids = st.binary(min_size=16, max_size=16)
int8s = st.integers(-(2**7), 2**7 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
numbers = st.lists(int32s, max_size=5).map(tuple)


lasting = st.builds(
    OffsetValue,
    offset=int64s,
    leader_epoch=int32s,
    metadata=texts,
    commit_timestamp=int64s,
    topic_id=ids,
)
# Version 1, the only one for these, has no room for a leader epoch or a topic id.
expiring = st.builds(
    OffsetValue,
    offset=int64s,
    metadata=texts,
    commit_timestamp=int64s,
    expire_timestamp=int64s.filter(lambda time: time != -1),
)
classic_members = st.builds(
    GroupMetadataMember,
    member_id=names,
    group_instance_id=maybe_names,
    client_id=names,
    client_host=names,
    rebalance_timeout=int32s,
    session_timeout=int32s,
    subscription=blobs,
    assignment=blobs,
)
classic_groups = st.builds(
    GroupMetadataValue,
    protocol_type=names,
    generation=int32s,
    protocol=maybe_names,
    leader=maybe_names,
    current_state_timestamp=int64s,
    members=st.lists(classic_members, max_size=3).map(tuple),
)
classic_metadata = st.builds(
    ClassicMemberMetadata,
    session_timeout_ms=int32s,
    supported_protocols=st.lists(st.builds(ClassicProtocol, names, blobs), max_size=3).map(tuple),
)
members = st.builds(
    ConsumerGroupMemberValue,
    instance_id=maybe_names,
    rack_id=maybe_names,
    client_id=names,
    client_host=names,
    subscribed_topic_names=st.lists(names, max_size=3).map(tuple),
    subscribed_topic_regex=maybe_names,
    rebalance_timeout_ms=int32s,
    server_assignor=maybe_names,
    classic_member_metadata=st.none() | classic_metadata,
)
owned = st.lists(st.builds(OwnedPartitions, ids, numbers, st.none() | numbers), max_size=3)
currents = st.builds(
    CurrentMemberAssignmentValue,
    member_epoch=int32s,
    previous_member_epoch=int32s,
    state=int8s,
    assigned_partitions=owned.map(tuple),
    partitions_pending_revocation=owned.map(tuple),
)
targets = st.builds(
    TargetAssignmentMemberValue,
    topic_partitions=st.lists(st.tuples(ids, numbers), max_size=3).map(tuple),
)
regexes = st.builds(
    ConsumerGroupRegexValue,
    topics=st.lists(names, max_size=3).map(tuple),
    version=int64s,
    timestamp=int64s,
)
groups = st.builds(ConsumerGroupMetadataValue, epoch=int32s, metadata_hash=int64s)
target_epochs = st.builds(
    TargetAssignmentMetadataValue, assignment_epoch=int32s, assignment_timestamp=int64s
)

stored_records: st.SearchStrategy[Stored] = st.one_of(
    st.builds(OffsetCommit, names, names, int32s, st.none() | lasting | expiring),
    st.builds(GroupMetadata, names, st.none() | classic_groups),
    st.builds(ConsumerGroupMetadata, names, st.none() | groups),
    st.builds(ConsumerGroupMember, names, names, st.none() | members),
    st.builds(TargetAssignmentMetadata, names, st.none() | target_epochs),
    st.builds(TargetAssignmentMember, names, names, st.none() | targets),
    st.builds(CurrentMemberAssignment, names, names, st.none() | currents),
    st.builds(ConsumerGroupRegex, names, names, st.none() | regexes),
)

named_partitions = st.lists(st.tuples(names, numbers), max_size=3).map(tuple)
subscriptions = st.builds(
    Subscription,
    topics=st.lists(names, max_size=3).map(tuple),
    owned_partitions=named_partitions,
    generation_id=int32s,
    rack_id=maybe_names,
    user_data=st.none() | blobs,
)
