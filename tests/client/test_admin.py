"""Topics, settings and groups, as values."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.client.conftest import unique
from tests.client.quick import quick_consumer

from barnabas.client import (
    Admin,
    BrokerUnavailableError,
    ConfigError,
    GroupNotEmptyError,
    GroupNotFoundError,
    NewTopic,
    OffsetReset,
    Producer,
    Setting,
    TimedOutError,
    TopicExistsError,
    TopicNotFoundError,
    TopicPartition,
)
from barnabas.client.message import from_milliseconds

TopicMaker = Callable[..., str]
BASE_MS = 1_700_000_000_000


def fill(bootstrap: str, topic: str, count: int) -> None:
    # Without idempotence: a new producer's id would take half a second to come.
    with Producer(bootstrap, idempotent=False) as producer:
        for number in range(count):
            producer.post(topic, str(number), partition=0, timestamp=BASE_MS + number * 1000)


def test_a_topic_lives_from_creation_to_deletion(bootstrap: str) -> None:
    with Admin(bootstrap) as admin:
        name = unique("life")
        admin.create_topic(name, 2, config={"retention.ms": 60_000, "preallocate": False})
        with pytest.raises(TopicExistsError, match=name):
            admin.create_topic(name)
        admin.create_topic(name, exist_ok=True)
        assert name in admin.list_topics()
        fill(bootstrap, name, 3)
        found = admin.describe_topic(name)
        assert [each.end_offset for each in found.partitions] == [3, 0]
        assert [each.start_offset for each in found.partitions] == [0, 0]
        assert all(each.leader in each.replicas for each in found.partitions)
        assert (found.name, found.internal, len(found.id)) == (name, False, 22)
        assert admin.delete_records(name, 0, 2) == 2
        assert admin.describe_topic(name).partitions[0].start_offset == 2
        admin.grow_topic(name, 4)
        assert len(admin.describe_topic(name).partitions) == 4
        admin.delete_topic(name)
        assert name not in admin.list_topics()
        with pytest.raises(TopicNotFoundError, match=f"There is no topic {name}"):
            admin.delete_topic(name)
        admin.delete_topic(name, missing_ok=True)
        with pytest.raises(TopicNotFoundError, match=f"There is no topic {name}"):
            admin.describe_topic(name)


def test_of_several_topics_the_good_ones_are_made(admin: Admin) -> None:
    good = unique("good")
    with pytest.raises(ConfigError, match="no/topic"):
        admin.create_topics([NewTopic(good), NewTopic("no/topic"), NewTopic(unique("also"), 3)])
    assert good in admin.list_topics()


def test_settings_are_read_changed_and_taken_back(admin: Admin, make_topic: TopicMaker) -> None:
    topic = make_topic()
    before = admin.topic_config(topic)["retention.ms"]
    assert before.default
    admin.set_topic_config(topic, {"retention.ms": 5000, "cleanup.policy": "compact"})
    changed = setting_once(admin, topic, lambda setting: setting.value == "5000")
    assert changed.source == "DYNAMIC_TOPIC_CONFIG"
    admin.set_topic_config(topic, {"retention.ms": None})
    assert setting_once(admin, topic, lambda setting: setting.default) == before
    assert admin.topic_config(topic)["cleanup.policy"].value == "compact"
    with pytest.raises(ConfigError, match=r"no\.such\.key"):
        admin.set_topic_config(topic, {"no.such.key": 1})
    with pytest.raises(ConfigError, match="nothing to change"):
        admin.set_topic_config(topic, {})
    with pytest.raises(TopicNotFoundError):
        admin.set_topic_config("nowhere", {"retention.ms": 1})


def setting_once(admin: Admin, topic: str, ready: Callable[[Setting], bool]) -> Setting:
    """retention.ms, once the broker that is asked has heard of the change."""
    for _ in range(200):
        found = admin.topic_config(topic)["retention.ms"]
        if ready(found):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_settings_of_a_broker(admin: Admin, make_topic: TopicMaker) -> None:
    leader = admin.describe_topic(make_topic()).partitions[0].leader
    assert leader is not None
    assert admin.broker_config(leader)["log.dirs"].read_only


def test_a_group_from_outside(
    bootstrap: str, admin: Admin, make_topic: TopicMaker, group: str
) -> None:
    topic = make_topic()
    place = TopicPartition(topic, 0)
    fill(bootstrap, topic, 10)
    with quick_consumer(topic, group, bootstrap, instance_id="one") as consumer:
        for _ in range(4):
            assert consumer.poll(30) is not None
        consumer.commit()
        found = admin.describe_group(group)
        assert (found.state, found.protocol, found.lag) == ("stable", "classic", 6)
        assert found.assignor == "range"
        (member,) = found.members
        assert (member.instance_id, member.assignment) == ("one", (place,))
        (offset,) = found.offsets
        assert (offset.committed, offset.end_offset, offset.lag) == (4, 10, 6)
        assert [each.state for each in admin.list_groups() if each.group == group] == ["stable"]
        with pytest.raises(GroupNotEmptyError, match="stop the group's consumers"):
            admin.delete_group(group)


def test_a_group_is_set_back_forth_and_away(
    bootstrap: str, admin: Admin, make_topic: TopicMaker, group: str
) -> None:
    topic = make_topic()
    place = TopicPartition(topic, 0)
    fill(bootstrap, topic, 10)
    with quick_consumer(topic, group, bootstrap) as consumer:
        for _ in range(5):
            assert consumer.poll(30) is not None
        consumer.commit()

    def reset(**how: object) -> int:
        (answer,) = admin.reset_offsets(group, topic, **how)  # type: ignore[arg-type]
        return answer.after

    assert admin.reset_offsets(group, topic, to="beginning", dry_run=True) == (
        OffsetReset(place, 5, 0),
    )
    assert admin.lag(group) == {place: 5}
    assert reset(to="end") == 10
    assert admin.lag(group) == {place: 0}
    assert reset(to="beginning") == 0
    assert reset(by=7) == 7
    assert reset(by=-3) == 4
    assert reset(by=1000) == 10
    assert reset(to=3) == 3
    assert reset(to=from_milliseconds(BASE_MS + 6500)) == 7
    assert reset(to=timedelta(seconds=1)) == 10
    assert reset(to=timedelta(days=36_500), partitions=[0]) == 0
    with pytest.raises(ConfigError, match="`to` or `by`"):
        reset()
    with pytest.raises(ConfigError, match="has no partition 9"):
        reset(to=0, partitions=[9])
    with pytest.raises(TopicNotFoundError):
        admin.reset_offsets(group, "nowhere", to=0)
    with quick_consumer(topic, group, bootstrap) as consumer:
        message = consumer.poll(30)
        assert message is not None
        assert message.offset == 0
    admin.delete_group(group)
    with pytest.raises(GroupNotFoundError):
        admin.describe_group(group)
    with pytest.raises(GroupNotFoundError):
        admin.delete_group(group)


def test_no_broker_is_said() -> None:
    with (
        Admin("127.0.0.1:1", timeout=0.5) as admin,
        pytest.raises((BrokerUnavailableError, TimedOutError), match="barnabas up"),
    ):
        admin.list_topics()
