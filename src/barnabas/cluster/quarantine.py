"""A broker takes itself out of a partition whose log is damaged there, or gone."""

from collections.abc import Awaitable, Callable
from enum import Enum

from barnabas.cluster.elections import emptied, found, quarantined
from barnabas.cluster.errors import StateChangedError
from barnabas.cluster.image import Image, PartitionState, Topic
from barnabas.cluster.isr import IsrChange
from barnabas.cluster.view import View
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.coordination import Coordination


class Loss(Enum):
    """What a broker has lost of a partition's log."""

    SOME = "some"
    """It does not go for the sake of brokers that are not there at the moment."""
    ALL_OF_USE = "all that is of use"
    """It goes for the sake of others that are not there, too."""
    EVERYTHING = "everything"
    """Nobody must take it for what there is: where no others have all that is committed, nobody
    leads."""
    NOTHING = "nothing"
    """The log is there again."""


async def quarantine(
    view: View,
    coordination: Coordination,
    open_session: Callable[[], Awaitable[None]],
    place: tuple[Topic, int],
    broker: int,
    loss: Loss,
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
        after = _decided(image, known, before, broker, loss)
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


def _decided(
    image: Image, topic: Topic, state: PartitionState, broker: int, loss: Loss
) -> PartitionState | None:
    minimum = topic.config.min_insync_replicas
    match loss:
        case Loss.SOME:
            present = [each.id for each in image.brokers.values() if not each.leaving]
            return quarantined(state, broker, minimum, present)
        case Loss.ALL_OF_USE:
            return quarantined(state, broker, minimum, state.replicas)
        case Loss.EVERYTHING:
            return emptied(state, broker, minimum)
        case Loss.NOTHING:
            return found(state, broker)
