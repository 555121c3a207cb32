"""A group that commits offsets, each higher than the one before, and reads them back."""

import asyncio
from typing import Any, Final

from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.asking import request
from barnabas.sim.cluster.client import Client, NoAnswerError
from barnabas.sim.cluster.ledger import Ledger
from barnabas.sim.cluster.truth import demand

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
_GROUP: Final = 0


class Offsets:
    """What a group asks its coordinator, whoever that is."""

    def __init__(self, client: Client, group: str, ledger: Ledger) -> None:
        self._client = client
        self._group = group
        self._ledger = ledger
        self._coordinator: int | None = None

    async def commit(self, partition: TopicPartition, offset: int) -> bool:
        """Commit without being a member; False: nobody knows, ask again."""
        row = {"partition_index": partition.partition, "committed_offset": offset}
        body = {
            "group_id": self._group,
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": partition.topic, "partitions": [row]}],
        }
        answer = await self.ask(OFFSET_COMMIT, 9, body)
        if answer is None:
            return False
        return self._is_fine(answer.topics[0].partitions[0].error_code)

    async def committed(self, partition: TopicPartition) -> int | None:
        """The offset that is committed (-1: none); None: nobody knows, ask again."""
        topic = {"name": partition.topic, "partition_indexes": [partition.partition]}
        group = {"group_id": self._group, "member_epoch": -1, "topics": [topic]}
        answer = await self.ask(OFFSET_FETCH, 9, {"groups": [group], "require_stable": True})
        if answer is None:
            return None
        (told,) = answer.groups
        if not self._is_fine(told.error_code):
            return None
        row = told.topics[0].partitions[0]
        return int(row.committed_offset) if self._is_fine(row.error_code) else None

    async def ask(self, key: int, version: int, body: dict[str, Any]) -> Any:
        """Ask the coordinator; None: it did not answer."""
        if self._coordinator is None:
            self._coordinator = await self._client.coordinator_of(self._group, _GROUP)
        try:
            return await self._client.ask(self._coordinator, key, version, request(key, body))
        except NoAnswerError:
            self._coordinator = None
            return None

    def look_elsewhere(self) -> None:
        """The coordinator may be another by now."""
        self._coordinator = None

    def _is_fine(self, code: ErrorCode) -> bool:
        if code is ErrorCode.none:
            return True
        self._ledger.errors[f"group {code.name}"] += 1
        self._coordinator = None
        return False


class Committer:
    """Commits one offset after the other for one partition."""

    def __init__(self, client: Client, partition: TopicPartition, ledger: Ledger) -> None:
        self.partition = partition
        self.wanted = True
        self.idle = False
        self._client = client
        self._offsets = Offsets(client, client.name, ledger)
        self._tried = 0
        self._acknowledged = 0

    async def run(self) -> None:
        """Until it is not wanted any more, and then once more."""
        while self.wanted:
            await self._step()
            await asyncio.sleep(self._client.chance.uniform(0, 0.5))
        while not await self._look():
            await self._client.rest()
        self.idle = True

    async def _step(self) -> None:
        if self._client.chance.random() < 0.3:
            await self._look()
            return
        self._tried += 1
        if await self._offsets.commit(self.partition, self._tried):
            self._acknowledged = self._tried
        else:
            await self._client.rest()

    async def _look(self) -> bool:
        found = await self._offsets.committed(self.partition)
        if found is None:
            return False
        demand(
            self._acknowledged <= max(found, 0) <= self._tried,
            "CommittedOffsets",
            f"{self.partition.directory} has offset {found}, and {self._acknowledged} was "
            f"acknowledged (of {self._tried})",
        )
        # What was read is committed as much as what was acknowledged.
        self._acknowledged = max(found, self._acknowledged)
        return True
