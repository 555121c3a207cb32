"""OffsetCommit, with topic names as well as ids."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from kio.schema.offset_commit.v10 import request, response

RETENTION_OF_THE_BROKER = timedelta(milliseconds=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic(request.OffsetCommitRequestTopic):
    """Has its name up to version 9, its id from 10 on."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest(request.OffsetCommitRequest):
    """Versions 2 to 4 could say how long to keep the offsets."""

    topics: tuple[OffsetCommitRequestTopic, ...]
    retention_time: timedelta = RETENTION_OF_THE_BROKER


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic(response.OffsetCommitResponseTopic):
    """Has its name up to version 9, its id from 10 on."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse(response.OffsetCommitResponse):
    """As the newest, with topics that may have names."""

    topics: tuple[OffsetCommitResponseTopic, ...]
