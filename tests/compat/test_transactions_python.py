"""The Python libraries' transactional producers and read_committed readers."""

import os
from collections.abc import Callable, Iterator

import pytest
from tests.compat.txn_client_aiokafka import AiokafkaTxn
from tests.compat.txn_client_confluent import ConfluentTxn
from tests.compat.txn_client_kafka_python import KafkaPythonTxn
from tests.compat.txn_port import TxnClient
from tests.compat.txn_scenarios import SCENARIOS, TxnStage, scenario_name

CLIENTS: tuple[type[TxnClient], ...] = (ConfluentTxn, AiokafkaTxn, KafkaPythonTxn)
PATIENCE = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="module")
def txn_bootstrap() -> Iterator[str]:
    """A broker that soon looks for transactions that take too long."""
    given = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    from barnabas.testing import Broker

    with Broker(memory=False, config=PATIENCE) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("scenario", SCENARIOS, ids=scenario_name)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_transactions(
    client: type[TxnClient], scenario: Callable[[TxnStage], None], txn_bootstrap: str
) -> None:
    scenario(TxnStage(client, txn_bootstrap))
