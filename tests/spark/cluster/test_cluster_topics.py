"""What exists, who leads it, and what is said of what does not exist."""

from dataclasses import replace
from typing import Any

import pytest
from tests.compat.batches import Rec
from tests.spark.cluster.stage import Stage, connection, make_topic, write

from barnabas.model.errors import ErrorCode
from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.cluster.metadata import METADATA, Node
from barnabas.spark.cluster.offsets import LIST_OFFSETS
from barnabas.spark.errors import NotAnsweredError, SparkJobError, UnknownTopicError
from barnabas.spark.places import Place


def test_topics_and_their_partitions(cluster: Cluster) -> None:
    make_topic(cluster, "orders", 3)
    make_topic(cluster, "returns", 1)
    cluster.commit_offsets("somebody", {Place("orders", 0): 0})
    assert cluster.topic_names(internal=False) == ["orders", "returns"]
    assert cluster.topic_names() == ["__consumer_offsets", "orders", "returns"]
    assert cluster.partition_counts(["orders", "returns"]) == {"orders": 3, "returns": 1}
    assert cluster.partition_counts([]) == {}
    ids = cluster.topic_ids(["orders", "returns"])
    assert len(set(ids.values())) == 2
    assert cluster.topic_ids(["orders"]) == {"orders": ids["orders"]}


def test_two_connections_to_one_cluster(stage: Stage) -> None:
    other = Cluster(connection(stage.broker.port))
    assert other.cluster_id() == stage.cluster.cluster_id() is not None
    other.close()


def test_a_topic_that_does_not_exist_is_not_made(cluster: Cluster) -> None:
    make_topic(cluster, "payments", 1)
    for ask in (
        lambda: cluster.partition_counts(["payment", "payments"]),
        lambda: cluster.latest([Place("payment", 0)], committed=True),
        lambda: cluster.commit_offsets("somebody", {Place("payment", 0): 1}),
        lambda: cluster.timestamp_types(["payment"]),
    ):
        with pytest.raises(UnknownTopicError) as caught:
            ask()
        assert str(caught.value) == (
            f"There is no topic payment at {cluster.connection} (did you mean payments?): check "
            "the spelling, or make it with `barnabas topic create payment`."
        )
    assert "payment" not in cluster.topic_names()


def test_several_topics_that_do_not_exist(cluster: Cluster) -> None:
    with pytest.raises(UnknownTopicError, match=r"There are no topics xyzzy, zyxxy at 127\.0\.0"):
        cluster.partition_counts(["zyxxy", "xyzzy"])


def test_a_name_that_no_topic_can_have(cluster: Cluster) -> None:
    with pytest.raises(SparkJobError, match="that is no name for a topic"):
        cluster.partition_counts(["a b"])


def test_a_partition_that_does_not_exist(cluster: Cluster) -> None:
    make_topic(cluster, "narrow", 2)
    with pytest.raises(UnknownTopicError, match=r"no partition narrow-2: narrow has 2 of them"):
        cluster.earliest([Place("narrow", 0), Place("narrow", 2)])


def test_leaders_are_remembered_until_forgotten(stage: Stage) -> None:
    places = make_topic(stage.cluster, "led", 2)
    node = Node(0, "127.0.0.1", stage.road.port)
    assert stage.cluster.leaders(places) == dict.fromkeys(places, node)
    asked = stage.road.carried[METADATA]
    assert stage.cluster.leaders(places) == dict.fromkeys(places, node)
    assert stage.road.carried[METADATA] == asked
    stage.cluster.forget_leaders()
    stage.cluster.leaders(places)
    assert stage.road.carried[METADATA] == asked + 1
    assert stage.cluster.broker(node) is stage.cluster.broker(node)


def leaderless(answer: Any) -> Any:
    topics = tuple(
        replace(
            topic,
            partitions=tuple(
                replace(each, leader_id=-1, error_code=ErrorCode.leader_not_available)
                for each in topic.partitions
            ),
        )
        for topic in answer.topics
    )
    return replace(answer, topics=topics)


def test_an_election_is_waited_for(stage: Stage) -> None:
    places = make_topic(stage.cluster, "elected", 2)
    stage.road.rewrites[METADATA] = [leaderless] * 3
    assert stage.cluster.partition_counts(["elected"]) == {"elected": 2}
    assert stage.cluster.leaders(places).keys() == set(places)
    assert stage.road.rewrites[METADATA] == []
    stage.cluster.forget_leaders()
    stage.road.rewrites[METADATA] = [leaderless] * 2
    assert stage.cluster.latest(places, committed=False) == dict.fromkeys(places, 0)
    assert stage.road.rewrites[METADATA] == []


def test_a_partition_that_stays_without_a_leader(stage: Stage) -> None:
    (place,) = make_topic(stage.cluster, "orphan")
    hasty = Cluster(connection(stage.road.port, patience_s=0.2))
    stage.road.rewrites[METADATA] = [leaderless] * 1000
    with pytest.raises(NotAnsweredError, match=r"LEADER_NOT_AVAILABLE.* orphan-0 has no leader"):
        hasty.leaders([place])
    stage.road.rewrites[METADATA] = []
    hasty.close()


def test_who_no_longer_leads_is_not_asked_twice(stage: Stage) -> None:
    place, other = make_topic(stage.cluster, "moving", 2)
    write(stage.cluster, place, [Rec()])

    def moved(answer: Any) -> Any:
        (topic,) = answer.topics
        parts = tuple(
            replace(each, error_code=ErrorCode.not_leader_or_follower)
            if each.partition_index == 0
            else each
            for each in topic.partitions
        )
        return replace(answer, topics=(replace(topic, partitions=parts),))

    again: list[int] = []

    def rest(answer: Any) -> Any:
        again.extend(each.partition_index for each in answer.topics[0].partitions)
        return answer

    stage.road.rewrites[LIST_OFFSETS] = [moved, rest]
    asked = stage.road.carried[METADATA]
    assert stage.cluster.latest([place, other], committed=False) == {place: 1, other: 0}
    assert again == [0], "only what failed is asked for again"
    assert stage.road.carried[METADATA] == asked + 1, "and the leader is looked up anew"
