"""The Python libraries' transactional producers and read_committed readers."""

from collections.abc import Callable

import pytest
from tests.compat.txn_client_aiokafka import AiokafkaTxn
from tests.compat.txn_client_confluent import ConfluentTxn
from tests.compat.txn_client_kafka_python import KafkaPythonTxn
from tests.compat.txn_port import TxnClient
from tests.compat.txn_scenarios import SCENARIOS, TxnStage, scenario_name

CLIENTS: tuple[type[TxnClient], ...] = (ConfluentTxn, AiokafkaTxn, KafkaPythonTxn)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=scenario_name)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_transactions(
    client: type[TxnClient], scenario: Callable[[TxnStage], None], txn_bootstrap: str
) -> None:
    scenario(TxnStage(client, txn_bootstrap))
