"""Brokers, asked over a plain link for what confluent-kafka has no question for."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from barnabas.cli.client import REQUEST_S
from barnabas.link.sync import Link
from barnabas.model.errors import BarnabasError, DecodeError, ErrorCode
from barnabas.wire.apis import API_VERSIONS, APIS


class Broker:
    """A connection to one broker, with the versions it speaks."""

    def __init__(self, host: str, port: int) -> None:
        self._where = f"{host}:{port}"
        with self._problems_as_sentences():
            self._link = Link(host, port, client_id="barnabas-cli", timeout_s=REQUEST_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._link.close()

    @cached_property
    def _newest(self) -> dict[int, int]:
        """The newest version of each API that both sides speak."""
        from kio.schema.api_versions.v0.request import ApiVersionsRequest

        with self._problems_as_sentences():
            answer = self._link.call(API_VERSIONS, 0, ApiVersionsRequest())
        found = {}
        for theirs in answer.api_keys:
            ours = APIS.get(theirs.api_key)
            if ours is not None:
                newest = min(ours.max_version, theirs.max_version)
                if newest >= max(ours.min_version, theirs.min_version):
                    found[ours.key] = newest
        return found

    def speaks(self, api_key: int) -> bool:
        """Whether it can be asked this at all."""
        return api_key in self._newest

    def ask(self, api_key: int, request: Any) -> Any:
        """The answer, in its newest form."""
        if api_key not in self._newest:
            name = APIS[api_key].name
            raise BarnabasError(f"The broker {self._where} does not know {name} requests.")
        with self._problems_as_sentences():
            return self._link.call(api_key, self._newest[api_key], request)

    @contextmanager
    def _problems_as_sentences(self) -> Iterator[None]:
        try:
            yield
        except (OSError, DecodeError) as error:
            raise BarnabasError(
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
