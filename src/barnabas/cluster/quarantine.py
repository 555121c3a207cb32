"""A broker takes itself out of a partition whose log is damaged there."""

from collections.abc import Awaitable, Callable

from barnabas.cluster.elections import quarantined
from barnabas.cluster.errors import StateChangedError
from barnabas.cluster.image import PartitionState, Topic
from barnabas.cluster.isr import IsrChange
from barnabas.cluster.view import View
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.coordination import Coordination


async def quarantine(
    view: View,
    coordination: Coordination,
    open_session: Callable[[], Awaitable[None]],
    place: tuple[Topic, int],
    broker: int,
    *,
    present_only: bool,
) -> PartitionState | None:
    """See `Cluster.quarantine`. `open_session`, unless there is one, before each attempt."""
    topic, number = place
    while True:
        await open_session()
        image = view.image
        known = image.topics.get(topic.name)
        if known is None or known.id != topic.id:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        before = known.partitions[number]
        if broker not in before.replicas:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, "It was moved elsewhere.")
        present = [each.id for each in image.brokers.values() if not each.leaving]
        trusted = present if present_only else before.replicas
        after = quarantined(before, broker, known.config.min_insync_replicas, trusted)
        if after is None:
            return None
        change = IsrChange(known, number, before, after, (), image.controller_epoch)
        try:
            # (It is followed as any other broker's would be: who leads then, is for the
            # controller to say, which may be this one.)
            stored = await change.commit(coordination, mark="")
        except StateChangedError as error:
            view.found_state(known, number, error.actual)
            continue
        view.found_state(known, number, stored)
        return stored
