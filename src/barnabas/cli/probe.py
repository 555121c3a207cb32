"""`doctor --probe`: one record there and back, through a topic that exists only for it."""

import time
import uuid
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.cli.checkup import Finding
from barnabas.cli.client import admin, admin_api, sentence, settings
from barnabas.model.errors import BarnabasError

_WAIT_S: Final = 15.0


def probe(bootstrap: str) -> Finding:
    """Create a topic, send a record, read it back, delete the topic."""
    topic = f"barnabas-doctor-{uuid.uuid4().hex[:12]}"
    try:
        client = admin(bootstrap)
        client.create_topics([admin_api().NewTopic(topic, 1, -1)])[topic].result(_WAIT_S)
        try:
            took_ms = _round_trip(client, bootstrap, topic)
        finally:
            client.delete_topics([topic])[topic].result(_WAIT_S)
    except KafkaException as error:
        return Finding("probe", "problem", sentence(error))
    except BarnabasError as error:
        return Finding("probe", "problem", str(error))
    return Finding("probe", "ok", f"a record was there and back in {took_ms:.0f} ms")


def _round_trip(client: AdminClient, bootstrap: str, topic: str) -> float:
    """Milliseconds from sending a record to having it back."""
    # Without its metadata here, the producer would wait for its next look at the cluster.
    client.list_topics(topic, timeout=_WAIT_S)
    began = time.monotonic()
    _send(bootstrap, topic, topic.encode())
    _receive(bootstrap, topic, topic.encode())
    return (time.monotonic() - began) * 1000


def _send(bootstrap: str, topic: str, value: bytes) -> None:
    failures: list[KafkaException] = []
    producer = Producer(
        settings(bootstrap) | {"message.timeout.ms": int(_WAIT_S * 1000), "linger.ms": 0}
    )
    producer.produce(
        topic,
        value,
        on_delivery=lambda error, _: failures.append(KafkaException(error)) if error else None,
    )
    producer.flush(_WAIT_S)
    if failures:
        raise failures[0]


def _receive(bootstrap: str, topic: str, value: bytes) -> None:
    consumer = Consumer(settings(bootstrap) | {"group.id": topic, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(_WAIT_S)
        if message is None:
            raise BarnabasError(
                f"The record was acknowledged, but did not come in {_WAIT_S:.0f} s."
            )
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        if message.value() != value:
            raise BarnabasError("Another record came back than the one that was sent.")
    finally:
        consumer.close()
