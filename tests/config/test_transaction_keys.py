"""The keys about transactions: Kafka's names and defaults."""

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.transaction_settings import TransactionSettings
from barnabas.model.errors import ErrorCode, KafkaError


def test_without_any_setting_a_broker_has_the_default_settings() -> None:
    assert BrokerConfig().transactions == TransactionSettings()


def test_what_is_set_is_what_the_coordinator_reads() -> None:
    config = BrokerConfig(
        {
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "2",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.segment.bytes": "2097152",
            "transaction.max.timeout.ms": "5000",
            "transactional.id.expiration.ms": "6000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "70",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "80",
            "transaction.partition.verification.enable": "false",
            "add.partitions.to.txn.retry.backoff.ms": "9",
            "add.partitions.to.txn.retry.backoff.max.ms": "10",
        }
    )
    assert config.transactions == TransactionSettings(
        partitions=4,
        replication_factor=2,
        min_insync_replicas=1,
        segment_bytes=2097152,
        timeout_max_ms=5000,
        id_expiration_ms=6000,
        timed_out_interval_ms=70,
        expired_interval_ms=80,
        verification=False,
        add_retry_backoff_ms=9,
        add_retry_backoff_max_ms=10,
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"transaction.state.log.num.partitions": "0"}, "at least 1"),
        ({"transaction.state.log.replication.factor": "0"}, "at least 1"),
        ({"transaction.state.log.load.buffer.size": "1000"}, "the log's own size"),
        ({"transaction.max.timeout.ms": "0"}, "at least 1"),
        ({"transaction.two.phase.commit.enable": "true"}, "InitProducerId v6"),
        ({"producer.id.expiration.check.interval.ms": "1000"}, "segments to delete"),
        ({"add.partitions.to.txn.retry.backoff.max.ms": "-1"}, "at least 0"),
    ],
)
def test_what_can_not_be_honoured_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        BrokerConfig(settings)
    assert refused.value.code is ErrorCode.invalid_config


def test_verification_can_be_switched_while_the_broker_runs() -> None:
    config = BrokerConfig().with_dynamic({"transaction.partition.verification.enable": "false"}, {})
    assert not config.transactions.verification
