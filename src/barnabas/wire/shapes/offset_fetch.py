"""OffsetFetch, with topic names as well as ids."""

from dataclasses import dataclass
from uuid import UUID

from kio.schema.offset_fetch.v10 import request, response


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopic(request.OffsetFetchRequestTopics):
    """Has its name up to version 9, its id from 10 on."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup(request.OffsetFetchRequestGroup):
    """One group; the only one up to version 7."""

    topics: tuple[OffsetFetchRequestTopic, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest(request.OffsetFetchRequest):
    """As the newest, with topics that may have names."""

    groups: tuple[OffsetFetchRequestGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopic(response.OffsetFetchResponseTopics):
    """Has its name up to version 9, its id from 10 on."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup(response.OffsetFetchResponseGroup):
    """One group; the only one up to version 7."""

    topics: tuple[OffsetFetchResponseTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse(response.OffsetFetchResponse):
    """As the newest, with topics that may have names."""

    groups: tuple[OffsetFetchResponseGroup, ...]
