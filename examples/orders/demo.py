"""`make demo`: a broker, a stream of orders, a pipeline with a window, a join and a dead letter.

What the pipeline made is compared with the same sums done in plain Python, and shown as a table
and as a chart. Whatever does not hold ends the demonstration with exit code 1.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer
from examples.orders.charts import Revenue, as_a_picture, in_the_terminal
from examples.orders.events import COUNTRIES, Order, closing, customers, orders

from barnabas.cli.client import admin, admin_api
from barnabas.cli.ending import exit_code
from barnabas.cli.output import table
from barnabas.model.errors import BarnabasError
from barnabas.testing import Broker

HERE: Final = Path(__file__).resolve().parent
MINUTES: Final = 30
ORDERS_A_MINUTE: Final = 300
WAIT_S: Final = 150.0
"""A machine that is busy takes long to start Spark; nothing here waits longer than it must."""
_REASON_CHARS_MAX: Final = 60
TOPICS: Final = {"orders": 3, "customers": 1, "revenue": 3, "orders-dead": 1}


def main() -> None:
    """Tell the story, then exit."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--picture", type=Path, default=Path("demo.png"), help="where it is drawn")
    sys.exit(exit_code(lambda: tell(asked.parse_args().picture)))


def tell(picture: Path) -> None:
    """Start, stream, watch, compare, show."""
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-demo-") as folder,
        Broker(memory=False, data=Path(folder, "broker")) as broker,
    ):
        servers = broker.bootstrap_servers
        create_topics(servers)
        write_customers(servers)
        chapter(f"A broker at {servers} with {len(TOPICS)} topics; the pipeline is started")
        text = (HERE / "pipeline.yaml").read_text()
        print(text[text.index("steps:") :].strip())
        with running_pipeline(servers, folder) as ended:
            sent = write_orders(servers)
            wanted = computed(sent)
            poison = [order for order in sent if order.country is None]
            chapter(f"{len(sent):,} orders are written, {len(poison)} of them poison")
            revenue = read_revenue(servers, len(wanted), ended)
            dead = read_dead_letters(servers, len(poison), ended)
            chapter("$ barnabas pipeline status examples/orders/pipeline.yaml")
            show_status(servers, folder)
        require(revenue == wanted, "the pipeline's sums are not those of plain Python")
        require(
            Counter(letter.value() for letter in dead) == Counter(each.value for each in poison),
            "the dead letters are not the poison records, each once",
        )
        show(revenue, dead, picture)
    print(
        f"\nEvery sum equals the one done in plain Python, and every poison record is a dead letter"
        f"\nonce, bytes and all. It took {time.monotonic() - began:.0f} s."
    )


def chapter(title: str) -> None:
    """A heading."""
    print(f"\n\033[1m{title}\033[0m" if sys.stdout.isatty() else f"\n{title}", flush=True)


def require(held: bool, otherwise: str) -> None:
    """End the demonstration when something told does not hold."""
    if not held:
        raise BarnabasError(f"The demonstration found a mismatch: {otherwise}.")


def create_topics(servers: str) -> None:
    """All of them: a pipeline never creates one."""
    new = [admin_api().NewTopic(name, count, -1) for name, count in TOPICS.items()]
    client = admin(servers)
    for future in client.create_topics(new).values():
        future.result(WAIT_S)


def write_customers(servers: str) -> None:
    """One record each, by their names."""
    producer = Producer({"bootstrap.servers": servers})
    for name, country in customers().items():
        value = json.dumps({"id": name, "country": country})
        producer.produce("customers", key=name, value=value)
    require(producer.flush(WAIT_S) == 0, "customers were not acknowledged")


def write_orders(servers: str) -> list[Order]:
    """Minute by minute, then the one that closes the morning."""
    producer = Producer({"bootstrap.servers": servers})
    sent: list[Order] = []
    for minute in (*orders(MINUTES, ORDERS_A_MINUTE), [closing()]):
        for order in minute:
            producer.produce("orders", key=order.key, value=order.value)
        # A minute is wholly there before the next begins, so that none is later than 2 minutes.
        require(producer.flush(WAIT_S) == 0, "orders were not acknowledged")
        sent += minute
        time.sleep(0.3)
    return sent[:-1]


def computed(sent: list[Order]) -> Revenue:
    """What the pipeline should say."""
    revenue: dict[tuple[datetime.datetime, str], Decimal] = {}
    for order in sent:
        if order.minute is not None and order.country is not None:
            place = order.minute, order.country
            revenue[place] = revenue.get(place, Decimal(0)) + order.amount
    return revenue


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "barnabas.cli.main", "pipeline", *words]


def _environment(servers: str, folder: str) -> dict[str, str]:
    return os.environ | {"BARNABAS_SERVERS": servers, "ORDERS_FOLDER": folder}


@contextmanager
def running_pipeline(servers: str, folder: str) -> Iterator[Callable[[], None]]:
    """`barnabas pipeline run`, until this block ends; what is yielded raises if it ended before."""
    with (
        open(Path(folder, "pipeline.log"), "w+b") as log,
        subprocess.Popen(
            _command("run", str(HERE / "pipeline.yaml")), stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, env=_environment(servers, folder),
        ) as process,
    ):  # fmt: skip

        def check() -> None:
            if process.poll() is not None:
                raise BarnabasError("The pipeline has ended")

        try:
            yield check
            check()
            process.terminate()
            require(process.wait(WAIT_S) == 0, "the pipeline did not stop well")
        except BarnabasError as problem:
            log.seek(0)
            said = log.read().decode(errors="replace").strip()
            raise BarnabasError(f"{problem} The pipeline said:\n{said}") from problem
        finally:
            process.kill()


def read_all(servers: str, topic: str, count: int, check: Callable[[], None]) -> list[Message]:
    """So many committed records of a topic, and a moment longer for any too many."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "demo", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    try:
        while len(found) < count and time.monotonic() < deadline:
            check()
            found += [each for each in consumer.consume(1000, 0.5) if each.error() is None]
        found += [each for each in consumer.consume(1000, 1.0) if each.error() is None]
    finally:
        consumer.close()
    require(len(found) == count, f"{topic} has {len(found)} records instead of {count}")
    return found


def read_revenue(servers: str, count: int, check: Callable[[], None]) -> Revenue:
    """The pipeline's sums, from its topic."""
    documents = [
        json.loads(each.value() or b"") for each in read_all(servers, "revenue", count, check)
    ]
    return {
        (
            datetime.datetime.fromisoformat(each["minute"]).astimezone(datetime.UTC),
            each["country"],
        ): Decimal(str(each["total"]))
        for each in documents
    }


def read_dead_letters(servers: str, count: int, check: Callable[[], None]) -> list[Message]:
    """What the pipeline could not read."""
    return read_all(servers, "orders-dead", count, check)


def reason(letter: Message) -> str:
    """Why it is dead, as its header says."""
    headers: dict[str, Any] = dict(letter.headers() or [])
    return str(headers["barnabas.reason"].decode())[:_REASON_CHARS_MAX]


def show_status(servers: str, folder: str) -> None:
    """As anybody can at another terminal."""
    done = subprocess.run(
        _command("status", str(HERE / "pipeline.yaml")), stdout=subprocess.PIPE, text=True,
        env=_environment(servers, folder), timeout=WAIT_S, check=False,
    )  # fmt: skip
    print(done.stdout.strip(), flush=True)
    require(done.returncode == 0, "barnabas pipeline status failed")


def show(revenue: Revenue, dead: list[Message], picture: Path) -> None:
    """A table and a chart of each."""
    chapter("Revenue by country, from the topic 'revenue'")
    totals = [
        (country, f"{sum(total for (_, place), total in revenue.items() if place == country):,.2f}")
        for country in COUNTRIES
    ]
    print(table(("country", "revenue"), totals))
    chapter("Revenue by minute")
    print(in_the_terminal(revenue))
    reasons = Counter(map(reason, dead))
    chapter("Dead letters, from the topic 'orders-dead'")
    print(table(("reason", "letters"), reasons.most_common()))
    picture.write_bytes(as_a_picture(revenue, COUNTRIES, reasons))
    print(f"\nThe same as a picture: {picture}")


if __name__ == "__main__":
    main()
