"""How an archive or a replay reaches the cluster of its topic."""

from collections.abc import Mapping

from barnabas.spark.cluster.connection import Connection


class Connecting:
    """What is asked for, as far as it says where brokers are and how a client talks to them."""

    servers: str
    kafka: Mapping[str, str]

    def kafka_options(self) -> dict[str, str]:
        """Of everything that talks to the cluster of the topic."""
        own = {f"kafka.{key}": value for key, value in self.kafka.items()}
        return {"kafka.bootstrap.servers": self.servers, **own}

    def connection(self) -> Connection:
        """To the cluster of the topic."""
        options = self.kafka_options()
        return Connection.from_options({key.lower(): value for key, value in options.items()})
