"""The way to a broker: which one, whether it answers, and what its errors mean in a sentence.

confluent-kafka is imported only when a command needs it.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_PORT: Final = 9092
_CONNECT_S: Final = 5.0
REQUEST_S: Final = 15.0
"""How long a broker has to answer one request."""

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        metavar="HOST:PORT",
        help="The broker to talk to; several with commas.",
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="Any setting of librdkafka."),
]


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """`host:port,host:port` as pairs; a host without a port means 9092."""
    found = []
    for part in bootstrap.split(","):
        text = part.strip()
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        host = host.strip("[]")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise BarnabasError(f"--bootstrap {bootstrap}: write it as host:port.")
        found.append((host, int(port)))
    return found


def pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """`key=value` options as a mapping."""
    found = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{text}: write it as key=value.", param_hint=option)
        found[key] = value
    return found


def check_answers(bootstrap: str) -> None:
    """Raise at once when nobody listens; the client library would try for long, and silently."""
    problem: OSError | None = None
    for host, port in addresses(bootstrap):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_S).close()
            return
        except OSError as error:
            problem = error
    raise BarnabasError(
        f"No broker answers at {bootstrap} ({_reason(problem)}): start one with `barnabas up`, or "
        "name another with --bootstrap."
    )


def _reason(problem: OSError | None) -> str:
    if problem is None:
        return "no address"
    return problem.strerror or str(problem) or type(problem).__name__


def settings(bootstrap: str) -> dict[str, Any]:
    """What every client of a broker is made with."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "barnabas-cli",
        # Whatever goes wrong ends in a sentence of ours; the library's own log would only repeat
        # it, in its own words.
        "log_level": 0,
    }


def admin_api() -> Any:
    """The module `confluent_kafka.admin`, which does not tell type checkers what it offers."""
    import confluent_kafka.admin

    return confluent_kafka.admin


def admin(bootstrap: str) -> "AdminClient":
    """An admin client for a broker that answers."""
    check_answers(bootstrap)
    from confluent_kafka.admin import AdminClient

    return AdminClient(settings(bootstrap))


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Turn what confluent-kafka raises into one sentence."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise BarnabasError(sentence(error)) from error


def sentence(error: "KafkaException") -> str:
    """The broker's own words where it gave some, with a full stop."""
    from confluent_kafka import KafkaError

    cause = error.args[0] if error.args else error
    if not isinstance(cause, KafkaError):
        return f"{cause}."
    if cause.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
        return (
            f"The broker does not answer ({cause.name()}): `barnabas doctor` tells whether it "
            "speaks Kafka and whether its advertised address can be reached."
        )
    said = cause.str().strip().rstrip(".")
    return f"{said} ({cause.name()})."


def existing_topics(client: Any) -> dict[str, Any]:
    """Every topic. Asking for all of them never creates one, as asking for one can."""
    with errors_as_sentences():
        topics: dict[str, Any] = client.list_topics(timeout=REQUEST_S).topics
        return topics


def existing_topic(client: Any, name: str) -> Any:
    """One topic; BarnabasError when there is none of that name."""
    found = existing_topics(client).get(name)
    if found is None:
        raise no_such_topic(name)
    return found


def no_such_topic(name: str) -> BarnabasError:
    """What to do about it."""
    return BarnabasError(
        f"There is no topic {name}: `barnabas topic list` shows those there are, "
        f"`barnabas topic create {name}` makes one."
    )
