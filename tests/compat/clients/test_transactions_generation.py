"""Which generation of transactions a client uses, seen on the wire and in the epochs.

The new one (KIP-890) has an epoch for every transaction, and no requests that only add partitions.
"""

import shutil
from collections.abc import Iterator

import pytest
from tests.chaos.broker_process import free_port
from tests.compat import real_kafka
from tests.compat.clients.recorder import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Recorder,
)
from tests.compat.clients.txn_clients import FranzGoTxn, JavaTxn
from tests.compat.txn_client_confluent import ConfluentTxn
from tests.compat.txn_port import TxnClient
from tests.compat.txn_scenarios import END, TxnStage

from barnabas.testing import Broker

TRANSACTIONS = 4
pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not real_kafka.available() or shutil.which("javac") is None, reason="needs javac"
    ),
]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    port = free_port()
    config = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with Broker(memory=False, config=config) as broker, Recorder(port, broker.port) as running:
        yield running


def _transact(kind: type[TxnClient], recorder: Recorder) -> list[int]:
    """Commit and abort in turn; the coordinator's epoch before, and after each transaction."""
    stage = TxnStage(kind, recorder.address)
    topic, name, group = stage.topic(2), stage.name("txn"), stage.name("group")
    with stage.client() as client, stage.probe() as probe:
        client.open(name)
        epochs = [probe.state(name)["producer_epoch"]]
        for n in range(TRANSACTIONS):
            client.begin()
            for partition in (0, 1):
                client.send(topic, partition, [str(n)])
            if client.sends_offsets:
                client.offsets(group, topic, {0: n})
            (client.abort if n % 2 else client.commit)()
            probe.settle(name)
            epochs.append(probe.state(name)["producer_epoch"])
    stage.plainly(topic, 0, [END])
    assert stage.read(topic) == ["0", "2"]
    return epochs


@pytest.mark.parametrize("kind", [JavaTxn, FranzGoTxn], ids=lambda kind: kind.name)
def test_new_clients_have_an_epoch_for_every_transaction(
    kind: type[TxnClient], recorder: Recorder
) -> None:
    if kind is FranzGoTxn and shutil.which("go") is None:
        pytest.skip("needs go")
    epochs = _transact(kind, recorder)
    assert epochs == [epochs[0] + n for n in range(TRANSACTIONS + 1)]
    assert recorder.versions(ADD_PARTITIONS_TO_TXN) == set()
    assert recorder.versions(ADD_OFFSETS_TO_TXN) == set()
    assert recorder.versions(END_TXN) == {5}
    assert sum(recorder.seen[END_TXN, version] for version in range(6)) == TRANSACTIONS
    assert recorder.versions(TXN_OFFSET_COMMIT) == ({5} if kind.sends_offsets else set())
    # What the scenario writes beside its transactions is asked by version 12, too.
    assert min(recorder.versions(PRODUCE)) >= 12


def test_old_clients_keep_their_epoch_and_say_what_they_write_to(recorder: Recorder) -> None:
    epochs = _transact(ConfluentTxn, recorder)
    assert epochs == [epochs[0]] * (TRANSACTIONS + 1)
    assert recorder.versions(ADD_PARTITIONS_TO_TXN) <= {0, 1, 2, 3}
    assert recorder.versions(ADD_PARTITIONS_TO_TXN) != set()
    assert recorder.versions(ADD_OFFSETS_TO_TXN) != set()
    assert max(recorder.versions(END_TXN)) < 5
