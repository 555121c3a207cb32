"""What `group delete` does: whole groups, or what they committed for some topics."""

from dataclasses import dataclass
from typing import Any

from barnabas.cli.brokers import error_name
from barnabas.cli.client import REQUEST_S, sentence
from barnabas.cli.group_brokers import GroupBrokers
from barnabas.cli.group_facts import gather, named_members, shown
from barnabas.cli.group_places import committed_offsets
from barnabas.cli.group_show import existing
from barnabas.model.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Deleted:
    """What came of one deletion; `problem` is a sentence when nothing did."""

    group: str
    topic: str | None = None
    partitions: int | None = None
    problem: str | None = None

    @property
    def sentence(self) -> str:
        """What was done."""
        if self.topic is None:
            return f"Deleted {shown(self.group)}."
        return (
            f"Deleted what {shown(self.group)} committed for {self.topic} "
            f"({self.partitions} {'partition' if self.partitions == 1 else 'partitions'})."
        )

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        found: dict[str, Any] = {"group": self.group}
        if self.topic is not None:
            found |= {"topic": self.topic, "partitions": self.partitions}
        return found | {"error": self.problem}


def check_known(client: Any, names: list[str]) -> None:
    """BarnabasError unless there are groups of all these names. May raise KafkaException."""
    with GroupBrokers(client) as brokers:
        known = brokers.groups()
    for name in names:
        existing(known, name)


def delete_groups(client: Any, names: list[str]) -> list[Deleted]:
    """Delete each that can be. BarnabasError, and nothing deleted, when one is unknown."""
    from confluent_kafka import KafkaError, KafkaException

    with GroupBrokers(client) as brokers:
        known = brokers.groups()
        wanted = {name: existing(known, name) for name in names}
        done = []
        answers = client.delete_consumer_groups(list(wanted), request_timeout=REQUEST_S)
        for name, listed in wanted.items():
            try:
                answers[name].result(REQUEST_S)
                done.append(Deleted(name))
            except KafkaException as error:
                problem = f"{shown(name)}: {sentence(error)}"
                if error.args[0].code() == KafkaError.NON_EMPTY_GROUP:
                    group = gather([listed]).get(name)
                    who = f" ({named_members(group)})" if group is not None else ""
                    problem = (
                        f"{shown(name)} has members{who} and was not deleted: "
                        "stop its consumers first."
                    )
                done.append(Deleted(name, problem=problem))
    return done


def delete_offsets(client: Any, names: list[str], topics: list[str]) -> list[Deleted]:
    """Forget what each group committed for each topic. May raise KafkaException."""
    done = []
    with GroupBrokers(client) as brokers:
        known = brokers.groups()
        wanted = {name: existing(known, name) for name in names}
        for name, listed in wanted.items():
            committed = committed_offsets(client, name)
            for topic in dict.fromkeys(topics):
                partitions = [number for found, number in sorted(committed) if found == topic]
                if not partitions:
                    problem = f"{shown(name)} has committed nothing for {topic}."
                    done.append(Deleted(name, topic, 0, problem))
                    continue
                codes = listed.coordinator.delete_offsets(name, topic, partitions)
                done.append(_outcome(name, topic, codes))
    return done


def _outcome(name: str, topic: str, codes: dict[int, ErrorCode]) -> Deleted:
    refused = {number: code for number, code in codes.items() if code != ErrorCode.none}
    deleted = len(codes) - len(refused)
    if not refused:
        return Deleted(name, topic, deleted)
    if ErrorCode.group_subscribed_to_topic in refused.values():
        problem = (
            f"{shown(name)} has members that read {topic}, and what it committed was not "
            "deleted: stop its consumers first."
        )
    else:
        said = ", ".join(sorted({error_name(code) for code in refused.values()}))
        numbers = ", ".join(map(str, sorted(refused)))
        problem = f"{shown(name)}: {topic} partition {numbers} was refused ({said})."
    return Deleted(name, topic, deleted, problem)
