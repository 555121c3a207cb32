"""Transactions of Kafka's own Java client, of franz-go and of kafkajs."""

import shutil
from collections.abc import Callable

import pytest
from tests.compat import real_kafka
from tests.compat.clients.txn_clients import FranzGoTxn, JavaTxn, KafkajsTxn
from tests.compat.txn_port import TxnClient
from tests.compat.txn_scenarios import SCENARIOS, TxnStage, scenario_name

NEEDS: dict[type[TxnClient], bool] = {
    JavaTxn: real_kafka.available() and shutil.which("javac") is not None,
    FranzGoTxn: shutil.which("go") is not None,
    KafkajsTxn: shutil.which("node") is not None and shutil.which("npm") is not None,
}
pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=scenario_name)
@pytest.mark.parametrize("client", NEEDS, ids=lambda client: client.name)
def test_transactions(
    client: type[TxnClient], scenario: Callable[[TxnStage], None], txn_bootstrap: str
) -> None:
    if not NEEDS[client]:
        pytest.skip(f"{client.name} cannot be built here")
    scenario(TxnStage(client, txn_bootstrap))
