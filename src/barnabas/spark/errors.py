"""What a Spark job can run into; each is one sentence that says what to do."""

from typing import ClassVar

from barnabas.model.errors import BarnabasError


class SparkJobError(BarnabasError):
    """A job, its options or its surroundings must be changed."""

    restart_helps: ClassVar[bool] = False
    """Whether the same query, started again, may get over it: `keep_running` asks."""


class UnavailableError(SparkJobError):
    """Brokers did not answer, or a batch was cut short; later it may well work."""

    restart_helps = True


class GivenUpError(UnavailableError):
    """Another task of the same batch has failed, and its own error tells why."""


class DataLostError(SparkJobError):
    """Records that were to be read are gone (retention, a deleted topic, damage)."""


class SharedPartitionError(SparkJobError):
    """Two tasks of an exactly-once write met on one partition."""


class FencedError(SparkJobError):
    """A newer run of the same query has taken over."""


class UnknownTopicError(SparkJobError):
    """A topic, or a partition of one, does not exist."""


class NotAnsweredError(UnavailableError):
    """The cluster could not do it within the time that was given; later it may."""
