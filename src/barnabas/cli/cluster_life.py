"""One life of a broker: from the start of its process to the end of it.

No API tells which life it is, and connections tell too much: idle ones are closed, and new ones
turned away, by a broker that goes on living. But a fetch session (KIP-227) is remembered by the
process that opened it and by nobody else. So a broker that does not know the session any more is
another process, however quickly it was restarted.
"""

import datetime
import uuid
from types import TracebackType
from typing import Any, Final, Self

from barnabas.cli.brokers import Broker, NoAnswerError
from barnabas.cli.cluster_link import ANSWER_S
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.operating.snapshot import BrokerFacts

FETCH: Final = 1
_NO_SESSION: Final = 0
_TOPIC: Final = uuid.UUID("62617262-6162-4173-8000-6c6966650000")
"""A session has to be about something. Nobody has this topic, so nothing is ever read."""


class Life:
    """The life that a broker lives now: `with Life(facts) as life: …`."""

    def __init__(self, facts: BrokerFacts) -> None:
        """BarnabasError when it does not answer."""
        self._facts = facts
        self._broker: Broker | None = None
        self._session = _NO_SESSION
        self._epoch = 0
        try:
            self._open_session(self._connected())
        except NoAnswerError as error:
            self._hang_up()
            raise BarnabasError(
                f"Broker {facts.id} does not answer at {facts.address} ({error.__cause__}): "
                "nothing more is restarted."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hang_up()

    def is_over(self) -> bool:
        """Whether another process answers by now, or nobody listens there."""
        connected_before = self._broker is not None
        try:
            broker = self._connected()
            if self._knows_session(broker):
                return False
            if not connected_before and self._session != _NO_SESSION:
                return True
            # A process keeps its connections, so it is the same: it has no room for sessions.
            self._open_session(broker)
        except NoAnswerError as error:
            self._hang_up()
            return isinstance(error.__cause__, ConnectionRefusedError)
        return False

    def _connected(self) -> Broker:
        if self._broker is None:
            self._broker = Broker(self._facts.host, self._facts.port, timeout_s=ANSWER_S)
        return self._broker

    def _hang_up(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()

    def _open_session(self, broker: Broker) -> None:
        self._session = broker.ask(FETCH, _fetch(_NO_SESSION, 0)).session_id
        self._epoch = 0

    def _knows_session(self, broker: Broker) -> bool:
        # Counted also when no answer comes: one that is out of step is known all the same.
        self._epoch += 1
        answer = broker.ask(FETCH, _fetch(self._session, self._epoch))
        return answer.error_code is not ErrorCode.fetch_session_id_not_found


def _fetch(session: int, epoch: int) -> Any:
    """Epoch 0 opens a session; any other asks for what is new in it."""
    from kio.schema.fetch.v18.request import FetchPartition, FetchRequest, FetchTopic
    from kio.static.primitive import i32, i32Timedelta, i64

    partition = FetchPartition(partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(0))
    topic = FetchTopic(topic_id=_TOPIC, partitions=(partition,))
    return FetchRequest(
        max_wait=i32Timedelta.parse(datetime.timedelta(0)),
        min_bytes=i32(0),
        session_id=i32(session),
        session_epoch=i32(epoch),
        topics=() if epoch else (topic,),
        forgotten_topics_data=(),
    )
