"""Brokers, asked over a plain link for what confluent-kafka has no question for."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from barnabas.cli.client import REQUEST_S
from barnabas.link import broker as linked
from barnabas.link.sync import Link
from barnabas.model.errors import BarnabasError, DecodeError, ErrorCode, KafkaError


class NoAnswerError(BarnabasError):
    """Whoever was asked said nothing; another broker may."""


class Broker:
    """A broker on a link of its own, whose problems are sentences."""

    def __init__(self, host: str, port: int, timeout_s: float = REQUEST_S) -> None:
        self._where = f"{host}:{port}"
        with self._problems_as_sentences():
            link = Link(host, port, client_id="barnabas-cli", timeout_s=timeout_s)
        self._broker = linked.Broker(link)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._broker.close()

    def speaks(self, api_key: int) -> bool:
        """Whether it can be asked this at all."""
        with self._problems_as_sentences():
            return self._broker.speaks(api_key)

    def ask(self, api_key: int, request: Any) -> Any:
        """The answer, in its newest form."""
        with self._problems_as_sentences():
            return self._broker.ask(api_key, request)

    @contextmanager
    def _problems_as_sentences(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            raise BarnabasError(f"At {self._where} {error}.") from error
        except (OSError, DecodeError) as error:
            raise NoAnswerError(
                f"The broker {self._where} does not answer ({error}): `barnabas doctor` tells "
                "whether it speaks Kafka and whether its advertised address can be reached."
            ) from error


B = TypeVar("B", bound=Broker)


class Brokers(Generic[B]):
    """All of a cluster's brokers."""

    def __init__(self, client: Any, connect: Callable[[str, int], B]) -> None:
        """From an admin client; its metadata names every broker. May raise KafkaException."""
        known = client.list_topics(timeout=REQUEST_S).brokers
        self.by_id: dict[int, B] = {}
        with ExitStack() as opened:
            for number, each in known.items():
                broker = connect(each.host, each.port)
                opened.push(broker)
                self.by_id[number] = broker
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()


def check(what: str, code: ErrorCode) -> None:
    """BarnabasError unless the broker is content."""
    if code != ErrorCode.none:
        raise BarnabasError(f"{what}: the broker refuses it ({error_name(code)}).")


def error_name(code: ErrorCode) -> str:
    """In Kafka's spelling."""
    return code.name.upper()
