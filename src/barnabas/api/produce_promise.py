"""A batch that is appended and waits for nothing but its acknowledgement: by other brokers, or the
disk. No task waits for it, because such batches come by the thousand.
"""

import asyncio
from collections.abc import Callable

from barnabas.api.produce_append import Unacknowledged, refused
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.exchange import Frames
from barnabas.wire.produce import ProducePartitionResult

Encode = Callable[[ProducePartitionResult], Frames | None]


class Promise:
    """Turns the acknowledgement of one batch, or the end of a client's patience, into `answer`."""

    __slots__ = ("_encode", "_result", "_timer", "answer")

    def __init__(self, batch: Unacknowledged, timeout_s: float, encode: Encode) -> None:
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Frames | None] = loop.create_future()
        """Cancelled by the connection when nobody is there any more to be told."""
        self._result = batch.result
        self._encode = encode
        self._timer = loop.call_later(timeout_s, self._time_is_over)
        batch.acknowledged.add_done_callback(self._acknowledged)

    def _acknowledged(self, done: "asyncio.Future[None]") -> None:
        self._timer.cancel()
        if self.answer.done():
            # Who asks is told of its failure, which somebody else was told of.
            _ = done.cancelled() or done.exception()
            return
        if done.cancelled():
            self.answer.cancel()
            return
        error = done.exception()
        if error is None:
            self._tell(self._result)
        elif isinstance(error, KafkaError):
            self._tell(refused(self._result.index, error))
        else:
            self.answer.set_exception(error)

    def _time_is_over(self) -> None:
        if not self.answer.done():
            self._tell(refused(self._result.index, KafkaError(ErrorCode.request_timed_out)))

    def _tell(self, result: ProducePartitionResult) -> None:
        try:
            self.answer.set_result(self._encode(result))
        except Exception as defect:  # noqa: BLE001 - the connection logs it, and ends
            self.answer.set_exception(defect)
