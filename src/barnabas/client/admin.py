"""`Admin`: topics and settings, as calls that return values; groups are in `group_admin`."""

import time
from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self

from barnabas.client.descriptions import (
    NewTopic,
    PartitionDescription,
    Setting,
    TopicDescription,
)
from barnabas.client.errors import (
    ClientError,
    TimedOutError,
    TopicExistsError,
    TopicNotFoundError,
    config_error,
    no_such_topic,
    translating,
)
from barnabas.client.group_admin import GroupAdmin
from barnabas.client.settings import DEFAULT_BOOTSTRAP, REQUEST_S, Config, base_config
from barnabas.model.topics import TopicPartition

Isolation = Literal["read_committed", "read_uncommitted"]

_LOOK_S: Final = 0.02


class Questions(GroupAdmin):
    """What a consumer asks about the ends of its partitions.

    On a connection of its own: on the consumer's, an answer waits behind a fetch that the broker
    holds until messages come.
    """

    def __init__(self, bootstrap_servers: str, config: Config | None, isolation: Isolation) -> None:
        self._raw = _raw_admin(bootstrap_servers, config)
        self._timeout = REQUEST_S
        self._isolation = isolation

    def ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The earliest offset of each and the one after the last that can be read."""
        starts = self._offsets(places, "earliest")
        ends = self._offsets(places, "latest", isolation=self._isolation)
        return {place: (starts[place], ends[place]) for place in places}

    def offset_at(self, place: TopicPartition, milliseconds: int) -> int | None:
        """The first offset that is not older; None when every message is."""
        # Below 0 the protocol has other meanings for the number, and no message is older.
        found = self._offsets([place], max(0, milliseconds), isolation=self._isolation)[place]
        return found if found >= 0 else None


class Admin(GroupAdmin):
    """Creates, describes, changes and deletes; every call waits until it is done.

    `timeout` is how many seconds a broker has for one call. Threads may share one.
    """

    def __init__(
        self,
        bootstrap_servers: str = DEFAULT_BOOTSTRAP,
        *,
        timeout: float = REQUEST_S,
        config: Config | None = None,
    ) -> None:
        self._timeout = timeout
        self._raw = _raw_admin(bootstrap_servers, config)

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication: int | None = None,
        config: Mapping[str, object] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Create a topic; it can be used when this returns. TopicExistsError when it is there."""
        self.create_topics(
            [NewTopic(name, partitions, replication, config or {})], exist_ok=exist_ok
        )

    def create_topics(self, topics: Iterable[NewTopic], *, exist_ok: bool = False) -> None:
        """Create several. When one fails, the others are created all the same, then it raises."""
        wanted = {topic.name: topic for topic in topics}
        if not wanted:
            return
        answers = self._raw.create_topics(
            [_raw_topic(topic) for topic in wanted.values()], request_timeout=self._timeout
        )
        problem: ClientError | None = None
        made = []
        for name, answer in answers.items():
            try:
                self._answer(answer, f"creating the topic {name}")
                made.append(name)
            except TopicExistsError as error:
                if not exist_ok:
                    problem = problem or error
            except ClientError as error:
                problem = problem or error
        self._await_topics(made, there=True)
        if problem is not None:
            raise problem

    def delete_topic(self, name: str, *, missing_ok: bool = False) -> None:
        """Delete a topic and all its messages; it is gone when this returns."""
        answers = self._raw.delete_topics([name], request_timeout=self._timeout)
        try:
            self._answer(answers[name], f"deleting the topic {name}")
        except TopicNotFoundError as error:
            if not missing_ok:
                raise no_such_topic(name) from error
        self._await_topics([name], there=False)

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, sorted; Kafka's own (`__consumer_offsets`) when asked for."""
        found = self._metadata()
        return sorted(name for name in found if internal or not name.startswith("__"))

    def describe_topic(self, name: str) -> TopicDescription:
        """A topic with its partitions and their ends."""
        from confluent_kafka import TopicCollection

        answers = self._raw.describe_topics(TopicCollection([name]), request_timeout=self._timeout)
        try:
            found = self._answer(answers[name], f"describing the topic {name}")
        except TopicNotFoundError as error:
            raise no_such_topic(name) from error
        places = [TopicPartition(name, each.id) for each in found.partitions]
        starts, ends = self._offsets(places, "earliest"), self._offsets(places, "latest")
        return TopicDescription(
            name=name,
            # As Kafka and its files write ids; the library writes plain base64.
            id=str(found.topic_id).replace("+", "-").replace("/", "_"),
            internal=bool(found.is_internal),
            partitions=tuple(
                PartitionDescription(
                    partition=each.id,
                    leader=None if each.leader is None else each.leader.id,
                    replicas=tuple(node.id for node in each.replicas),
                    isr=tuple(node.id for node in each.isr),
                    start_offset=starts[TopicPartition(name, each.id)],
                    end_offset=ends[TopicPartition(name, each.id)],
                )
                for each in sorted(found.partitions, key=lambda each: each.id)
            ),
        )

    def grow_topic(self, name: str, partitions: int) -> None:
        """Add partitions, up to this many in all. Keys may then go to other partitions."""
        from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

        answers = self._raw.create_partitions(
            [NewPartitions(name, partitions)], request_timeout=self._timeout
        )
        self._answer(answers[name], f"adding partitions to {name}")
        deadline = time.monotonic() + self._timeout
        while len(self._metadata()[name].partitions) < partitions:
            self._still_waiting(deadline, f"{name} to have {partitions} partitions")

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Forget what is older than an offset; returns the earliest offset there is now."""
        from confluent_kafka import TopicPartition as RawPlace

        place = RawPlace(topic, partition, before)
        answers = self._raw.delete_records([place], request_timeout=self._timeout)
        found = self._answer(answers[place], f"deleting records of {topic}")
        return int(found.low_watermark)

    def topic_config(self, topic: str) -> dict[str, Setting]:
        """Every setting of a topic, with where its value comes from."""
        return self._config("TOPIC", topic)

    def set_topic_config(self, topic: str, changes: Mapping[str, object]) -> None:
        """Change settings of a topic; None takes one back to the broker's default."""
        self._set_config("TOPIC", topic, changes)

    def broker_config(self, broker_id: int) -> dict[str, Setting]:
        """Every setting of a broker."""
        return self._config("BROKER", str(broker_id))

    def set_broker_config(self, broker_id: int, changes: Mapping[str, object]) -> None:
        """Change settings of a broker that can be changed while it runs."""
        self._set_config("BROKER", str(broker_id), changes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is left open."""

    def _await_topics(self, names: list[str], *, there: bool) -> None:
        """The controller has decided; wait until the broker we ask knows of it as well."""
        deadline = time.monotonic() + self._timeout
        while names:
            found = self._metadata()
            names = [name for name in names if _is_usable(found.get(name)) != there]
            if names:
                self._still_waiting(deadline, f"{', '.join(names)} to {'come' if there else 'go'}")

    def _still_waiting(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise TimedOutError(
                f"Waiting for {what} took longer than {self._timeout} s.",
                code="TIMED_OUT",
                retriable=True,
            )
        time.sleep(_LOOK_S)

    def _config(self, kind: Literal["TOPIC", "BROKER"], name: str) -> dict[str, Setting]:
        from confluent_kafka import admin

        api: Any = admin
        resource = api.ConfigResource(api.ResourceType[kind], name)
        answer = self._raw.describe_configs([resource], request_timeout=self._timeout)[resource]
        found = self._answer(answer, f"asking for the settings of {kind.lower()} {name}")
        return {
            entry.name: Setting(
                name=entry.name,
                value=entry.value,
                source=api.ConfigSource(entry.source).name,
                default=bool(entry.is_default),
                read_only=bool(entry.is_read_only),
                sensitive=bool(entry.is_sensitive),
            )
            for entry in sorted(found.values(), key=lambda entry: str(entry.name))
        }

    def _set_config(
        self, kind: Literal["TOPIC", "BROKER"], name: str, changes: Mapping[str, object]
    ) -> None:
        from confluent_kafka import admin

        if not changes:
            config_error("There is nothing to change: give a setting and its value.")
        api: Any = admin
        entries = [
            api.ConfigEntry(
                key,
                None if value is None else setting_text(value),
                incremental_operation=api.AlterConfigOpType["DELETE" if value is None else "SET"],
            )
            for key, value in changes.items()
        ]
        resource = api.ConfigResource(api.ResourceType[kind], name, incremental_configs=entries)
        answers = self._raw.incremental_alter_configs([resource], request_timeout=self._timeout)
        self._answer(answers[resource], f"changing the settings of {kind.lower()} {name}")


def _raw_admin(bootstrap_servers: str, config: Config | None) -> Any:
    from confluent_kafka.admin import AdminClient

    with translating("making an admin client"):
        return AdminClient({"log_level": 0, **base_config(bootstrap_servers, config)})


def setting_text(value: object) -> str:
    """A value as Kafka's settings write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _raw_topic(topic: NewTopic) -> Any:
    from confluent_kafka.admin import NewTopic as RawTopic  # type: ignore[attr-defined]

    return RawTopic(
        topic.name,
        num_partitions=-1 if topic.partitions is None else topic.partitions,
        replication_factor=-1 if topic.replication is None else topic.replication,
        config={key: setting_text(value) for key, value in topic.config.items()},
    )


def _is_usable(found: Any) -> bool:
    """Whether a topic is there, and every partition has a leader."""
    if found is None or found.error is not None or not found.partitions:
        return False
    return all(each.leader >= 0 for each in found.partitions.values())
