"""Transactions that are open while the broker stops, cleanly or not, go on after it."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.chaos.broker_process import BrokerProcess
from tests.compat.txn_client_aiokafka import AiokafkaTxn
from tests.compat.txn_client_confluent import ConfluentTxn
from tests.compat.txn_client_kafka_python import KafkaPythonTxn
from tests.compat.txn_port import LINGERING
from tests.compat.txn_scenarios import END, TxnStage

CLIENTS = (ConfluentTxn, AiokafkaTxn, KafkaPythonTxn)
STOPS: dict[str, Callable[[BrokerProcess], object]] = {
    "clean": BrokerProcess.terminate,
    "kill -9": BrokerProcess.kill,
}


@pytest.mark.parametrize("stop", STOPS)
def test_open_transactions_outlive_the_broker(stop: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, ExitStack() as stack:
        broker.start()
        stages = [TxnStage(kind, broker.address) for kind in CLIENTS]
        topics = [stage.topic() for stage in stages]
        clients = [stack.enter_context(stage.client()) for stage in stages]
        for stage, client, topic in zip(stages, clients, topics, strict=True):
            stage.plainly(topic, 0, ["first"])
            client.open(stage.name("txn"))
            client.begin()
            client.send(topic, 0, ["never"])
            client.abort()
            client.begin()
            client.send(topic, 0, ["before"])
            client.offsets(f"group of {topic}", topic, {0: 7})
        STOPS[stop](broker)
        broker.start()
        for stage, client, topic in zip(stages, clients, topics, strict=True):
            with stage.client() as reader:
                assert reader.read(topic, 0, "first", LINGERING) == ["first"]
            client.send(topic, 0, ["after"])
            client.commit()
            stage.plainly(topic, 0, [END])
            assert stage.read(topic) == ["first", "before", "after"]
            assert stage.committed(f"group of {topic}", topic) == 7


def test_what_was_committed_stays_so_and_what_was_aborted_too(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        broker.start()
        stage = TxnStage(ConfluentTxn, broker.address)
        topic = stage.topic()
        with stage.client() as client:
            client.open(stage.name("txn"))
            for n in range(20):
                client.begin()
                client.send(topic, 0, [str(n)])
                (client.abort if n % 3 else client.commit)()
        stage.plainly(topic, 0, [END])
        expected = [str(n) for n in range(20) if n % 3 == 0]
        assert stage.read(topic) == expected
        for stop in STOPS.values():
            stop(broker)
            broker.start()
            assert stage.read(topic) == expected
