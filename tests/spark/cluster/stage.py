"""A broker behind a road that loses things, and what a test does to topics without a client."""

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

from tests.compat.batches import Rec, make_batch

from barnabas.model.errors import ErrorCode
from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.cluster.transactions import Producer
from barnabas.spark.places import Place
from barnabas.testing import Broker
from barnabas.wire.headers import parse_request_header, parse_response_header
from barnabas.wire.messages import decode_response, encode_response, newest_type
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from barnabas.wire.reshape import element_type

CREATE_TOPICS: Final = 19
TRANSACTIONAL: Final = 0x10
WAIT_S: Final = 60.0

Rewrite = Callable[[Any], Any]


class Road:
    """Carries frames between clients and one broker, whose advertised address it is."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._tls = tls
        self._open: set[socket.socket] = set()
        self.port: int = self._listener.getsockname()[1]
        self.target: int | None = None
        self.to_lose: Counter[int] = Counter()
        """How many answers of each API to lose, after the broker has done what was asked."""
        self.rewrites: dict[int, list[Rewrite]] = {}
        """What to make of the next answers of each API."""
        self.carried: Counter[int] = Counter()
        self.turned_away = threading.Semaphore(0)
        """Counts the clients that came while no broker was there."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Break every connection that is open."""
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
            try:
                broker = socket.create_connection(("127.0.0.1", self.target or 1))
            except OSError:
                self.turned_away.release()
                return
            with broker, client:
                self._open |= {client, broker}
                self._carry(client, broker)

    def _carry(self, client: socket.socket, broker: socket.socket) -> None:
        while (request := _frame(client)) is not None:
            broker.sendall(len(request).to_bytes(4, "big") + request)
            answer = _frame(broker)
            if answer is None:
                return
            header = parse_request_header(memoryview(request))
            key, version = header.api_key, header.api_version
            self.carried[key] += 1
            if self.to_lose[key]:
                self.to_lose[key] -= 1
                return
            if self.rewrites.get(key):
                _, at = parse_response_header(key, version, memoryview(answer))
                told = self.rewrites[key].pop(0)(decode_response(key, version, answer[at:]))
                answer = answer[:at] + encode_response(key, version, told)
            client.sendall(len(answer).to_bytes(4, "big") + answer)


def _frame(peer: socket.socket) -> bytes | None:
    front = _exactly(peer, 4)
    return None if front is None else _exactly(peer, int.from_bytes(front, "big"))


def _exactly(peer: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = peer.recv(count - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


class Stage:
    """A broker that can be stopped and started behind its road, and a cluster that asks it."""

    def __init__(self, *, memory: bool = True, patience_s: float = WAIT_S) -> None:
        self.road = Road()
        advertised = f"PLAINTEXT://127.0.0.1:{self.road.port}"
        self.broker = Broker(memory=memory, config={"advertised.listeners": advertised})
        self.cluster = Cluster(connection(self.road.port, patience_s))

    def __enter__(self) -> Self:
        self.broker.__enter__()
        self.road.target = self.broker.port
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cluster.close()
        self.road.close()
        self.broker.__exit__(kind, problem, trace)

    def stop(self) -> None:
        """The broker goes away, and every connection to it."""
        self.road.target = None
        self.broker.stop()
        self.road.cut()

    def start(self) -> None:
        """It is there again."""
        self.broker.start()
        self.road.target = self.broker.port

    def start_once_missed(self) -> threading.Thread:
        """Start as soon as somebody has asked in vain."""

        def wait_and_start() -> None:
            assert self.road.turned_away.acquire(timeout=WAIT_S)
            self.start()

        thread = threading.Thread(target=wait_and_start)
        thread.start()
        return thread


def connection(port: int, patience_s: float = WAIT_S) -> Connection:
    return Connection.from_options(
        {
            "kafka.bootstrap.servers": f"127.0.0.1:{port}",
            "kafka.default.api.timeout.ms": str(round(patience_s * 1000)),
        }
    )


def make_topic(cluster: Cluster, name: str, partitions: int = 1, **config: str) -> list[Place]:
    """Its partitions; config keys with underscores for dots."""
    request = newest_type(CREATE_TOPICS, "request")
    topic = element_type(request, "topics")
    entry = element_type(topic, "configs")
    configs = tuple(entry(name=key.replace("_", "."), value=value) for key, value in config.items())
    wanted = topic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=configs
    )
    answer = cluster.any_broker().ask(
        CREATE_TOPICS, request(topics=(wanted,), timeout=timedelta(seconds=30))
    )
    assert answer.topics[0].error_code is ErrorCode.none
    return [Place(name, number) for number in range(partitions)]


def write(
    cluster: Cluster,
    place: Place,
    records: Sequence[Rec],
    *,
    transactional_id: str | None = None,
    producer: Producer = Producer(-1, -1),
    sequence: int = -1,
    version: int = 12,
) -> int:
    """One batch; the offset of its first record, or AssertionError with the broker's answer."""
    attributes = TRANSACTIONAL if transactional_id is not None else 0
    batch = make_batch(records, producer=(*producer, sequence), attributes=attributes)
    part = ProducePartition(place.partition, memoryview(batch))
    topic = ProduceTopic(place.topic, None, [part])
    broker = cluster.broker(cluster.leaders([place])[place])
    answer = broker.link.produce(version, ProduceRequest(transactional_id, -1, 30_000, [topic]))
    assert answer is not None
    (result,) = answer.topics[0].partitions
    assert result.error == 0, ErrorCode(result.error)
    return result.base_offset
