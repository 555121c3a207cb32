"""Transactions of Java, franz-go and kafkajs behind the common port; built when first wanted."""

from tests.compat.clients.franz_go_client import FranzGoClient
from tests.compat.clients.java_program import SMALL, java_command
from tests.compat.clients.node_modules_cache import node_command
from tests.compat.clients.txn_child import ChildTxn


class JavaTxn(ChildTxn):
    """Kafka's own client: the new generation of transactions."""

    name = "java"

    @classmethod
    def command(cls) -> list[str]:
        return java_command("Transactions", *SMALL)


class FranzGoTxn(ChildTxn):
    """The Go library: the new generation of transactions; offsets go only with its own loop."""

    name = "franz-go"
    sends_offsets = False

    @classmethod
    def command(cls) -> list[str]:
        return [*FranzGoClient.command(), "transactions"]


class KafkajsTxn(ChildTxn):
    """The Node library: the old generation of transactions."""

    name = "kafkajs"
    claims_again = True

    @classmethod
    def command(cls) -> list[str]:
        return node_command("kafkajs_transactions.js")
