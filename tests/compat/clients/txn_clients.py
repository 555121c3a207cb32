"""Transactions of Java, franz-go and kafkajs behind the common port; built when first wanted."""

import subprocess
from functools import cache

from tests.compat.clients.child import SOURCES
from tests.compat.clients.franz_go_client import FranzGoClient
from tests.compat.clients.node_modules_cache import node_command
from tests.compat.clients.txn_child import ChildTxn
from tests.compat.real_kafka import CACHE, KAFKA_VERSION, jars


class JavaTxn(ChildTxn):
    """Kafka's own client: the new generation of transactions."""

    name = "java"

    @classmethod
    def command(cls) -> list[str]:
        return _java()


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


@cache
def _java() -> list[str]:
    directory = CACHE / f"kafka-{KAFKA_VERSION}" / "transactions"
    directory.mkdir(parents=True, exist_ok=True)
    source = SOURCES / "java" / "Transactions.java"
    subprocess.run(
        ["javac", "-nowarn", "-d", str(directory), "-cp", f"{jars()}/*", str(source)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    small = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *small, "-cp", f"{directory}:{jars()}/*", "Transactions"]
