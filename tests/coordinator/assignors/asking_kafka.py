"""Asks Kafka's own assignors, run in one JVM, and keeps what they said.

    python -m tests.coordinator.assignors.asking_kafka      records kafka_answers.txt afresh

One question and its answer take two lines of the format that KafkaAssignors.java explains.
"""

import random
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.compat import real_kafka

from barnabas.coordinator.assignors import ASSIGNORS, GroupSpec, MemberSpec, Partitions, TopicId

ANSWERS: Final = Path(__file__).with_name("kafka_answers.txt")
RECORDED_SEEDS: Final = range(18)
_PROGRAM: Final = Path(__file__).with_name("KafkaAssignors.java")
_WAIT_S: Final = 90.0

Question = tuple[str, GroupSpec]


def ask_kafka(questions: Iterable[Question]) -> list[str]:
    """Kafka's answers, one line each."""
    command = real_kafka.java(str(_PROGRAM))
    lines = "".join(f"{write_question(*question)}\n" for question in questions)
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=_WAIT_S, check=False
    )
    if done.returncode != 0:
        raise real_kafka.RealKafkaError(f"Kafka's assignors failed:\n{done.stderr}")
    return done.stdout.splitlines()


def write_question(assignor: str, spec: GroupSpec) -> str:
    """One group as a line."""
    kinds = {member.topics for member in spec.members.values()}
    members = (
        f"{name};{member.instance_id or ''};"
        f"{','.join(sorted(topic.hex() for topic in member.topics))};{_write(member.assigned)}"
        for name, member in sorted(spec.members.items())
    )
    counts = ",".join(f"{topic.hex()}={count}" for topic, count in sorted(spec.partitions.items()))
    kind = "homogeneous" if len(kinds) == 1 else "heterogeneous"
    return "|".join([assignor, kind, counts, *members])


def write_answer(assignment: dict[str, dict[TopicId, frozenset[int]]]) -> str:
    """One assignment as a line."""
    return "|".join(f"{name};{_write(given)}" for name, given in sorted(assignment.items()))


def read_question(line: str) -> Question:
    """The group of a line."""
    assignor, _, counts, *members = line.split("|")
    partitions = {}
    for entry in _list(counts, ","):
        topic, count = entry.split("=")
        partitions[bytes.fromhex(topic)] = int(count)
    specs = {}
    for member in members:
        name, instance, topics, assigned = member.split(";")
        subscribed = frozenset(map(bytes.fromhex, _list(topics, ",")))
        specs[name] = MemberSpec(instance or None, None, subscribed, _read(assigned))
    return assignor, GroupSpec(specs, partitions)


def _write(partitions: Partitions) -> str:
    """Topics stand in Kafka's order of ids: as signed numbers."""
    topics = sorted(
        partitions, key=lambda topic: (topic[0] < 128, topic[:8], topic[8] < 128, topic)
    )
    return ",".join(
        f"{topic.hex()}:{'.'.join(map(str, sorted(partitions[topic])))}" for topic in topics
    )


def _read(text: str) -> Partitions:
    partitions = {}
    for entry in _list(text, ","):
        topic, numbers = entry.split(":")
        partitions[bytes.fromhex(topic)] = frozenset(map(int, numbers.split(".")))
    return partitions


def _list(text: str, separator: str) -> list[str]:
    return text.split(separator) if text else []


def questions(seed: int) -> Iterator[Question]:
    """Groups that change step by step: members come, go and change their mind, topics grow."""
    rng = random.Random(seed)
    assignor = rng.choice(list(ASSIGNORS))
    # The homogeneous builder walks a hash set of ids, and small ids stand in it in their order;
    # ids with a high first bit are for the others, whose order Kafka defines.
    same = rng.random() < 0.4
    high = 0x80 if not same and rng.random() < 0.5 else 0
    topics = [
        bytes([high * rng.randrange(2)]) + bytes(14) + bytes([number])
        for number in range(1, rng.randrange(1, 8) + 1)
    ]
    counts = {topic: rng.randrange(1, rng.choice((3, 8, 30))) for topic in topics}
    members: dict[str, MemberSpec] = {}
    for _ in range(rng.randrange(1, 6)):
        members = _changed(members, rng, topics, same=same)
        if not members:
            continue
        spec = GroupSpec(members, dict(counts))
        if not high or len({member.topics for member in members.values()}) > 1:
            yield assignor, spec
        given = ASSIGNORS[assignor].assign(spec)
        members = {name: replace(m, assigned=given[name]) for name, m in members.items()}
        counts = {topic: count + rng.choice((0, 0, 0, 5)) for topic, count in counts.items()}


def _changed(
    members: dict[str, MemberSpec], rng: random.Random, topics: Sequence[TopicId], *, same: bool
) -> dict[str, MemberSpec]:
    everything = frozenset(topics)
    after = {}
    for name, member in members.items():
        if rng.random() < 0.2:
            continue
        wants = member.topics if same or rng.random() < 0.8 else _some(rng, topics)
        after[name] = replace(member, topics=wants)
    for _ in range(rng.randrange(0, rng.choice((3, 12)))):
        name = f"m{rng.randrange(100):02}"
        instance = f"i{rng.randrange(1000):03}{name}" if rng.random() < 0.3 else None
        wants = everything if same else _some(rng, topics)
        after.setdefault(name, MemberSpec(instance, None, wants, {}))
    return after


def _some(rng: random.Random, topics: Sequence[TopicId]) -> frozenset[TopicId]:
    return frozenset(rng.sample(list(topics), rng.randrange(1, len(topics) + 1)))


def main() -> None:
    """Record what Kafka answers."""
    asked = [question for seed in RECORDED_SEEDS for question in questions(seed)]
    answers = ask_kafka(asked)
    lines = [
        line
        for question, answer in zip(asked, answers, strict=True)
        for line in (write_question(*question), answer)
    ]
    ANSWERS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
