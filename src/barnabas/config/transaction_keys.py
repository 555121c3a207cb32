"""The broker keys about transactions and the topic that remembers them."""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.config import checks
from barnabas.config.keys import Check, ConfigType, Importance, Key, Update, Value
from barnabas.config.topic_keys import SEGMENT_BYTES_MIN
from barnabas.config.transaction_settings import TransactionSettings
from barnabas.model import limits

_B, _I, _SHORT = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.SHORT
_HIGH, _LOW = Importance.HIGH, Importance.LOW

_DAY_MS: Final = 24 * 3600 * 1000


def _key(
    name: str,
    type_: ConfigType,
    default: Value,
    doc: str,
    check: Check | None = None,
    importance: Importance = _HIGH,
) -> Key:
    return Key(name=name, type=type_, default=default, doc=doc, check=check, importance=importance)


# fmt: off
TRANSACTION_KEYS: Final = (
    # The topic that remembers transactions.
    _key("transaction.state.log.num.partitions", _I, 50,
         "Partitions of `__transaction_state`; a transactional id lives in one of them, chosen by "
         "its name, so the count must not change once there are some.",
         checks.between(1, limits.PARTITIONS_PER_TOPIC_MAX)),
    _key("transaction.state.log.replication.factor", _SHORT, 3,
         "Replicas of `__transaction_state`. A broker alone makes one; a cluster waits until so "
         "many brokers are there.",
         checks.at_least(1)),
    _key("transaction.state.log.min.isr", _I, 2,
         "`min.insync.replicas` of `__transaction_state`, at most: where there are fewer replicas, "
         "it is all of them.",
         checks.at_least(1)),
    _key("transaction.state.log.segment.bytes", _I, 100 * 1024 * 1024,
         "`segment.bytes` of `__transaction_state`; small, because only closed segments are "
         "compacted, and what is left is read at every start.",
         checks.at_least(SEGMENT_BYTES_MIN)),
    Key(name="transaction.state.log.load.buffer.size", type=_I, default=5 * 1024 * 1024,
        doc="Bytes read at a time while transactions are loaded.",
        refusal="transactions are loaded in reads of the log's own size"),
    # Transactions.
    _key("transaction.max.timeout.ms", _I, 15 * 60 * 1000,
         "The longest transaction timeout a producer may ask for, because an open transaction "
         "holds up readers.",
         checks.at_least(1)),
    _key("transaction.abort.timed.out.transaction.cleanup.interval.ms", _I, 10_000,
         "How often open transactions are looked through for those to abort because their time "
         "is up.",
         checks.at_least(1), _LOW),
    _key("transactional.id.expiration.ms", _I, 7 * _DAY_MS,
         "A transactional id is forgotten so long after its last transaction, so that ids nobody "
         "uses do not stay for ever.",
         checks.at_least(1)),
    _key("transaction.remove.expired.transaction.cleanup.interval.ms", _I, 3_600_000,
         "How often transactional ids are looked through for those to forget.",
         checks.at_least(1), _LOW),
    Key(name="transaction.partition.verification.enable", type=_B, default=True,
        doc="Whether a transactional batch is appended only after the coordinator has said that "
            "its partition is in the transaction; else one that comes late would never end.",
        importance=_LOW, update=Update.CLUSTER_WIDE),
    Key(name="transaction.two.phase.commit.enable", type=_B, default=False,
        doc="Whether producers may ask for transactions without a timeout, which a coordinator "
            "outside of this cluster ends.",
        importance=_LOW,
        refusal="producers ask for it by InitProducerId v6, which is not stable yet"),
    _key("add.partitions.to.txn.retry.backoff.ms", _I, 20,
         "How often a Produce asks again while the producer's last transaction is being ended.",
         checks.at_least(1)),
    _key("add.partitions.to.txn.retry.backoff.max.ms", _I, 100,
         "How long a Produce goes on asking, before its client is told to come again.",
         checks.at_least(0)),
    # Producers, as partitions remember them.
    Key(name="producer.id.expiration.ms", type=_I, default=_DAY_MS,
        doc="A producer silent for so long is forgotten by a partition, so that memory is bounded.",
        check=checks.at_least(1), importance=_LOW, update=Update.CLUSTER_WIDE),
    Key(name="producer.id.expiration.check.interval.ms", type=_I, default=600_000,
        doc="How often partitions are looked through for producers to forget.",
        check=checks.at_least(1), importance=_LOW, internal=True,
        refusal="producers are forgotten with every look for segments to delete"),
)
# fmt: on


def read_transaction_settings(values: Mapping[str, Any]) -> TransactionSettings:
    """What the effective values of all broker keys say about transactions."""
    return TransactionSettings(
        partitions=values["transaction.state.log.num.partitions"],
        replication_factor=values["transaction.state.log.replication.factor"],
        min_insync_replicas=values["transaction.state.log.min.isr"],
        segment_bytes=values["transaction.state.log.segment.bytes"],
        timeout_max_ms=values["transaction.max.timeout.ms"],
        id_expiration_ms=values["transactional.id.expiration.ms"],
        timed_out_interval_ms=values["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        expired_interval_ms=values["transaction.remove.expired.transaction.cleanup.interval.ms"],
        verification=values["transaction.partition.verification.enable"],
        add_retry_backoff_ms=values["add.partitions.to.txn.retry.backoff.ms"],
        add_retry_backoff_max_ms=values["add.partitions.to.txn.retry.backoff.max.ms"],
    )
