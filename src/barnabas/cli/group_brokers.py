"""The brokers that coordinate groups, asked for what confluent-kafka has no question for.

It tells neither epochs, nor all states, nor why a group was rebalanced, and it can not delete the
offsets of one topic. A broker answers only for the groups it coordinates.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Final, Self

from barnabas.cli.client import REQUEST_S
from barnabas.link.sync import Link
from barnabas.model.errors import BarnabasError, DecodeError, ErrorCode
from barnabas.wire.apis import API_VERSIONS, APIS

LIST_GROUPS: Final = 16
DESCRIBE_GROUPS: Final = 15
CONSUMER_GROUP_DESCRIBE: Final = 69
OFFSET_DELETE: Final = 47

_ASKED_AT_ONCE: Final = 500
"""Groups in one request: enough to be quick, and an answer that stays small."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A group as a list shows it, and the broker that coordinates it."""

    name: str
    type: str
    state: str
    protocol_type: str
    coordinator: "Broker"


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

    def groups(self) -> list[Listed]:
        """Every group this broker coordinates."""
        from kio.schema.list_groups.v5.request import ListGroupsRequest

        answer = self.ask(LIST_GROUPS, ListGroupsRequest())
        check("List groups", answer.error_code)
        return [
            # Brokers from before the new protocol name no type: all groups were classic.
            Listed(
                name=each.group_id,
                type=each.group_type or "classic",
                state=each.group_state or "Unknown",
                protocol_type=each.protocol_type,
                coordinator=self,
            )
            for each in answer.groups
        ]

    def classic_groups(self, names: list[str]) -> list[Any]:
        """DescribeGroups' answer for each of these."""
        from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
        from kio.schema.types import GroupId

        found: list[Any] = []
        for some in _slices(names):
            request = DescribeGroupsRequest(
                groups=tuple(map(GroupId, some)), include_authorized_operations=False
            )
            found += self.ask(DESCRIBE_GROUPS, request).groups
        return found

    def consumer_groups(self, names: list[str]) -> list[Any]:
        """ConsumerGroupDescribe's answer for each of these."""
        from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
        from kio.schema.types import GroupId

        found: list[Any] = []
        for some in _slices(names):
            request = ConsumerGroupDescribeRequest(
                group_ids=tuple(map(GroupId, some)), include_authorized_operations=False
            )
            found += self.ask(CONSUMER_GROUP_DESCRIBE, request).groups
        return found

    def delete_offsets(self, group: str, topic: str, partitions: list[int]) -> dict[int, ErrorCode]:
        """Forget what the group committed for these; what came of each."""
        from kio.schema.offset_delete.v0.request import (
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
        )
        from kio.schema.types import GroupId, TopicName
        from kio.static.primitive import i32

        wanted = OffsetDeleteRequestTopic(
            name=TopicName(topic),
            partitions=tuple(
                OffsetDeleteRequestPartition(partition_index=i32(each)) for each in partitions
            ),
        )
        answer = self.ask(
            OFFSET_DELETE, OffsetDeleteRequest(group_id=GroupId(group), topics=(wanted,))
        )
        check(f"Delete offsets of {group}", answer.error_code)
        return {
            each.partition_index: each.error_code
            for found in answer.topics
            for each in found.partitions
        }


class Brokers:
    """All of a cluster's brokers."""

    def __init__(self, client: Any) -> None:
        """From an admin client; its metadata names every broker. May raise KafkaException."""
        known = client.list_topics(timeout=REQUEST_S).brokers.values()
        with ExitStack() as opened:
            self._all = [opened.enter_context(Broker(each.host, each.port)) for each in known]
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

    def groups(self) -> dict[str, Listed]:
        """Every group there is, by name."""
        found = [group for broker in self._all for group in broker.groups()]
        return {group.name: group for group in sorted(found, key=lambda group: group.name)}


def check(what: str, code: ErrorCode) -> None:
    """BarnabasError unless the broker is content."""
    if code != ErrorCode.none:
        raise BarnabasError(f"{what}: the broker refuses it ({error_name(code)}).")


def error_name(code: ErrorCode) -> str:
    """In Kafka's spelling."""
    return code.name.upper()


def _slices(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), _ASKED_AT_ONCE):
        yield names[start : start + _ASKED_AT_ONCE]
