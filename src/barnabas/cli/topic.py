"""`barnabas topic`: create, list, describe, alter and delete topics."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_S,
    Bootstrap,
    admin,
    admin_api,
    errors_as_sentences,
    existing_topic,
    existing_topics,
    no_such_topic,
    pairs,
)
from barnabas.cli.config_asks import Resource, check_keys
from barnabas.cli.output import AsJson, print_json, print_table, readable_size
from barnabas.model.errors import BarnabasError
from barnabas.model.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from barnabas.cli.topic_facts import TopicFacts

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

CREATE_EXAMPLES: Final = """\b
Examples:
  barnabas topic create orders
  barnabas topic create orders --partitions 6 --config retention.ms=86400000
  barnabas topic create payments --replicas 3 --config min.insync.replicas=2      in a cluster
  barnabas topic create users --config cleanup.policy=compact --if-not-exists
"""
LIST_EXAMPLES: Final = """\b
Examples:
  barnabas topic list
  barnabas topic list 'orders-*' --json
"""
DESCRIBE_EXAMPLES: Final = """\b
Examples:
  barnabas topic describe orders
  barnabas topic describe orders --json
"""
ALTER_EXAMPLES: Final = """\b
Examples:
  barnabas topic alter orders --partitions 12
  barnabas topic alter orders --config retention.ms=3600000 --delete-config flush.messages
"""
DELETE_EXAMPLES: Final = """\b
Examples:
  barnabas topic delete orders
  barnabas topic delete orders payments --yes
"""

Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="One or more topics.")]
Name = Annotated[str, typer.Argument(metavar="TOPIC")]


@app.command("create", epilog=CREATE_EXAMPLES)
def create(
    topics: Names,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="[default: the broker's]")
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            min=1, max=32767, help="On how many brokers each partition is.  [default: the broker's]"
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A topic key, such as retention.ms=86400000."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Be content with one that is there already.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create topics."""
    configs = pairs("--config", config)
    client = admin(bootstrap)
    from confluent_kafka import KafkaError, KafkaException

    try:
        wanted = [
            admin_api().NewTopic(
                name,
                num_partitions=partitions or -1,
                replication_factor=replicas or -1,
                config=configs,
            )
            for name in topics
        ]
    except ValueError as error:
        raise BarnabasError(f"{error}.") from error
    with errors_as_sentences():
        answers = client.create_topics(wanted, request_timeout=REQUEST_S)
        for name in topics:
            try:
                answers[name].result(REQUEST_S)
                print(f"Created {name}.")
            except KafkaException as error:
                exists = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
                if not (exists and if_not_exists):
                    raise
                print(f"{name} is there already.")


@app.command("list", epilog=LIST_EXAMPLES)
def list_(
    pattern: Annotated[
        str, typer.Argument(help="Only topics that match, with * and ? as in a shell.")
    ] = "*",
    internal: Annotated[
        bool, typer.Option("--internal", help="Show Kafka's own topics, too.")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List topics."""
    found = [
        {"name": name, "partitions": len(topic.partitions), "internal": name in INTERNAL_TOPICS}
        for name, topic in sorted(existing_topics(admin(bootstrap)).items())
        if fnmatchcase(name, pattern) and (internal or name not in INTERNAL_TOPICS)
    ]
    if as_json:
        print_json(found)
    else:
        print_table(
            ("topic", "partitions"), [(topic["name"], topic["partitions"]) for topic in found]
        )


@app.command("describe", epilog=DESCRIBE_EXAMPLES)
def describe(
    topics: Names, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> None:
    """Show partitions, leaders, offsets, sizes, and the settings that are not the default."""
    from barnabas.cli.topic_facts import gather

    client = admin(bootstrap)
    known = existing_topics(client)
    for name in topics:
        if name not in known:
            raise no_such_topic(name)
    with errors_as_sentences():
        found = [gather(client, bootstrap, known[name]) for name in topics]
    if as_json:
        print_json([topic.as_object() for topic in found])
        return
    for number, topic in enumerate(found):
        if number:
            print()
        _show(topic)


def _show(topic: "TopicFacts") -> None:
    total = sum(partition.size for partition in topic.partitions if partition.size is not None)
    print(f"{topic.name}  {len(topic.partitions)} partitions  {readable_size(total)}  {topic.id}")
    print_table(
        ("partition", "leader", "replicas", "in sync", "start", "end", "records", "size"),
        [
            (
                each.partition,
                each.leader,
                ",".join(map(str, each.replicas)),
                ",".join(map(str, sorted(each.isr))),
                each.start_offset,
                each.end_offset,
                each.end_offset - each.start_offset,
                None if each.size is None else readable_size(each.size),
            )
            for each in topic.partitions
        ],
    )
    if topic.configs:
        print_table(
            ("setting", "value", "source"),
            [(each.name, each.value, each.source) for each in topic.configs],
        )


@app.command("alter", epilog=ALTER_EXAMPLES)
def alter(
    topic: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="How many there shall be.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set a topic key.")
    ] = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Go back to the default of a key.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Add partitions to a topic, or change its settings.

    Partitions can not be taken away. With more of them, keys go to other partitions than before.
    """
    configs = pairs("--config", config)
    if partitions is None and not configs and not delete_config:
        raise typer.BadParameter("say what to alter: --partitions, --config or --delete-config.")
    client = admin(bootstrap)
    now = len(existing_topic(client, topic).partitions)
    with errors_as_sentences():
        if configs or delete_config:
            if delete_config:
                # A broker, as Kafka's, unsets whatever it is told to, also what does not exist.
                check_keys(bootstrap, Resource.parsed(f"topic:{topic}"), delete_config)
            _alter_configs(client, topic, configs, delete_config or [])
            print(f"Changed the settings of {topic}.")
        if partitions is not None:
            _grow(client, topic, now, partitions)


def _alter_configs(client: Any, topic: str, configs: dict[str, str], deleted: list[str]) -> None:
    api = admin_api()
    entries = [
        api.ConfigEntry(name, value, incremental_operation=api.AlterConfigOpType.SET)
        for name, value in configs.items()
    ] + [
        api.ConfigEntry(name, "", incremental_operation=api.AlterConfigOpType.DELETE)
        for name in deleted
    ]
    resource = api.ConfigResource(api.ResourceType.TOPIC, topic, incremental_configs=entries)
    answers = client.incremental_alter_configs([resource], request_timeout=REQUEST_S)
    answers[resource].result(REQUEST_S)


def _grow(client: Any, topic: str, now: int, wanted: int) -> None:
    if wanted < now:
        raise BarnabasError(
            f"{topic} has {now} partitions, and they can not be taken away: create another topic."
        )
    if wanted == now:
        print(f"{topic} has {now} partitions already.")
        return
    answers = client.create_partitions(
        [admin_api().NewPartitions(topic, wanted)], request_timeout=REQUEST_S
    )
    answers[topic].result(REQUEST_S)
    print(f"{topic} has {wanted} partitions now.")


@app.command("delete", epilog=DELETE_EXAMPLES)
def delete(
    topics: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics and every record in them."""
    client = admin(bootstrap)
    known = existing_topics(client)
    for name in topics:
        if name not in known:
            raise no_such_topic(name)
    if not yes:
        typer.confirm(f"Delete {', '.join(topics)} with all records?", abort=True)
    with errors_as_sentences():
        answers = client.delete_topics(topics, request_timeout=REQUEST_S)
        for name in topics:
            answers[name].result(REQUEST_S)
            print(f"Deleted {name}.")
