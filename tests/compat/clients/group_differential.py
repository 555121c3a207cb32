"""The same group scenarios to a real Kafka and to Barnabas, and what they answer differently.

python -m tests.compat.clients.group_differential ask WHOM ANSWERS.json [--markdown FILE]
python -m tests.compat.clients.group_differential diff KAFKA.json BARNABAS.json

WHOM is kafka or barnabas: brokers are started for the purpose, one for each set of configs.
With --only, only the scenarios whose function or module is named so are asked.
"""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tests.compat.clients import (
    group_probe_admin,
    group_probe_consumer,
    group_probe_find,
    group_probe_join,
    group_probe_limits,
    group_probe_mixed,
    group_probe_offsets,
    group_probe_reconcile,
    group_probe_static,
    group_probe_sync,
)
from tests.compat.clients.group_probe import GroupProbe
from tests.compat.raw import Plain
from tests.compat.real_kafka import RealKafka

from barnabas.testing import Broker

Answers = dict[str, Any]
Listener = Callable[[str, Plain], None]

# Kafka 4.3 computes assignments of consumer groups in the background and at most once in a while
# (KIP-1263): then the beat in which a member hears of its share is a matter of luck.
AT_ONCE: Final = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
}
QUICK: Final = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
}
SMALL: Final = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.size": "2",
    "group.consumer.max.size": "2",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1500",
    "group.consumer.session.timeout.ms": "1500",
}
_OWN: Final = frozenset({"host", "port", "cluster_id"})
# Words for people may be anybody's own; whether there are any may not.
_WORDS: Final = frozenset({"error_message", "documentation", "batch_index_error_message"})
_ABSENT: Final = "absent"
_LINE_CHARS: Final = 4000


@dataclass(frozen=True)
class Stage:
    """Scenarios that one broker with these configs is asked, in this order."""

    config: dict[str, str]
    scenarios: tuple[Callable[..., None], ...]
    only_kafka: dict[str, str] = field(default_factory=lambda: AT_ONCE)


STAGES: Final[tuple[Stage, ...]] = (
    Stage(
        QUICK,
        (
            *group_probe_find.SCENARIOS,
            *group_probe_join.SCENARIOS,
            *group_probe_static.SCENARIOS,
            *group_probe_sync.SCENARIOS,
            *group_probe_offsets.SCENARIOS,
            *group_probe_admin.SCENARIOS,
            *group_probe_consumer.SCENARIOS,
            *group_probe_reconcile.SCENARIOS,
            *group_probe_mixed.SCENARIOS,
        ),
    ),
    Stage(SMALL, group_probe_limits.SCENARIOS),
)


class Started(Protocol):
    """A broker that runs."""

    @property
    def bootstrap_servers(self) -> str:
        """Where to connect."""


def kafka(stage: Stage) -> AbstractContextManager[Started]:
    """A real Kafka for a stage."""
    return RealKafka(stage.config | stage.only_kafka)


def barnabas(stage: Stage) -> AbstractContextManager[Started]:
    """A Barnabas for a stage."""
    return Broker(memory=False, config=stage.config)


def ask(
    start: Callable[[Stage], AbstractContextManager[Started]],
    *,
    stages: Sequence[Stage] = STAGES,
    asker: Callable[..., GroupProbe] = GroupProbe,
    only: Collection[str] = (),
    on_answer: Listener = lambda _name, _entry: None,
) -> Answers:
    """Every scenario's answers, from a fresh broker for each stage."""
    answers: Answers = {}
    for stage in stages:
        chosen = [each for each in stage.scenarios if not only or _names(each) & set(only)]
        if not chosen:
            continue
        with start(stage) as broker:
            probe = asker(broker.bootstrap_servers, answers, on_answer=on_answer)
            for scenario in chosen:
                probe.play(scenario)
    return answers


def _names(scenario: Callable[..., None]) -> set[str]:
    return {scenario.__name__, scenario.__module__.rsplit("_", 1)[1]}


def differences(kafka: Answers, barnabas: Answers) -> Iterator[str]:
    """One line for each field that differs, after leaving out what is each broker's own."""
    for name in [*kafka, *(name for name in barnabas if name not in kafka)]:
        left, right = (_answer(side, name) for side in (kafka, barnabas))
        for path, one, other in _walk("", left, right):
            yield f"{name}: {path or 'answer'}: Kafka {one!r}, Barnabas {other!r}"


def _answer(side: Answers, name: str) -> Any:
    return _normal(side[name]["answer"]) if name in side else _ABSENT


def _normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _own(key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return value


def _own(key: str, value: Any) -> Any:
    if key in _WORDS and isinstance(value, str) and value:
        return "<words>"
    if key in _OWN and value not in (None, -1, ""):
        return f"<{key}>"
    return _normal(value)


def _walk(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        if left.get("error_code") != right.get("error_code"):
            # One refused what the other did: their other fields cannot be alike.
            yield f"{path}.error_code", left.get("error_code"), right.get("error_code")
            return
        for key in [*left, *(key for key in right if key not in left)]:
            yield from _walk(f"{path}.{key}", left.get(key, _ABSENT), right.get(key, _ABSENT))
    elif isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            yield f"{path} (rows)", left, right
            return
        for n, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _walk(f"{path}[{n}]", one, other)
    elif left != right:
        yield path, left, right


class Markdown:
    """Writes each answer as it comes: the request on one line, the answer on the next."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._scene = ""
        path.write_text("# What was answered to the scenarios\n")

    def __call__(self, name: str, entry: Plain) -> None:
        scene = name.split(": ", 1)[0]
        text = json.dumps(entry["answer"], ensure_ascii=False)
        lines = "" if scene == self._scene else f"\n## {scene}\n"
        self._scene = scene
        lines += f"- {name[len(scene) + 2 :]}: **{entry['api']}** {entry['request']}\n"
        if len(text) > _LINE_CHARS:
            text = text[:_LINE_CHARS] + "..."
        with self._path.open("a") as out:
            out.write(lines + f"    -> {text}\n")


def main(stages: Sequence[Stage] = STAGES, asker: Callable[..., GroupProbe] = GroupProbe) -> int:
    """Ask one broker, or compare two sets of answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    asking = commands.add_parser("ask")
    asking.add_argument("whom", choices=("kafka", "barnabas"))
    asking.add_argument("answers", type=Path)
    asking.add_argument("--markdown", type=Path, default=Path("/dev/null"))
    asking.add_argument("--only", nargs="*", default=())
    diff = commands.add_parser("diff")
    diff.add_argument("kafka", type=Path)
    diff.add_argument("barnabas", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "ask":
        start = {"kafka": kafka, "barnabas": barnabas}[arguments.whom]
        listener = Markdown(arguments.markdown)
        answers = ask(start, stages=stages, asker=asker, only=arguments.only, on_answer=listener)
        arguments.answers.write_text(json.dumps(answers, indent=1, ensure_ascii=False))
        return 0
    sides = (json.loads(path.read_text()) for path in (arguments.kafka, arguments.barnabas))
    found = list(differences(*sides))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
