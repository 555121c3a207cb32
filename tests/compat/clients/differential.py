"""The same raw requests to a real Kafka and to Barnabas, and what they answer differently.

python -m tests.compat.clients.differential ask WHOM ANSWERS.json [--markdown FILE]
python -m tests.compat.clients.differential diff KAFKA.json BARNABAS.json

WHOM is host:port of a broker without topics, or kafka, or barnabas, to have one started.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.compat.clients import probe_fetch, probe_metadata, probe_produce, probe_topics
from tests.compat.clients.probe import Probe, Scenario
from tests.compat.real_kafka import RealKafka

from barnabas.testing import Broker

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *probe_metadata.SCENARIOS,
    *probe_topics.SCENARIOS,
    *probe_produce.SCENARIOS,
    *probe_fetch.SCENARIOS,
)
Answers = dict[str, Any]

# What two healthy brokers may say differently: who they are, where things lie, when it was.
OWN: Final = frozenset(
    {
        "host", "port", "rack", "cluster_id", "topic_id", "broker_epoch", "session_id",
        "finalized_features_epoch", "log_dir", "total_bytes", "usable_bytes",
        "last_timestamp", "log_append_time",
    }
)  # fmt: skip
_UUID: Final = re.compile(r"^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$")
# Words for people may be anybody's own; a broker may be busy.
_WORDS: Final = frozenset({"error_message", "batch_index_error_message", "documentation"})
_NOISE: Final = frozenset({"throttle_time"})
_WORDY: Final = _NOISE | {
    "brokers", "cluster_id", "controller_id", "is_sensitive", "documentation", "replica_nodes",
    "isr_nodes", "offline_replicas", "node_endpoints",
}  # fmt: skip
_ABSENT: Final = "absent"
_LINE_CHARS: Final = 6000


def ask_all(bootstrap: str) -> Answers:
    """Every scenario's answers, from a broker that has no topics yet."""
    probe = Probe(bootstrap)
    for scenario in SCENARIOS:
        scenario(probe)
    probe.reconnect()
    return probe.answers


def ask_kafka() -> Answers:
    """Every scenario's answers, from a real Kafka started for the purpose."""
    with RealKafka() as kafka:
        return ask_all(kafka.bootstrap_servers)


def ask_barnabas() -> Answers:
    """Every scenario's answers, from a Barnabas with the same broker id."""
    with Broker(memory=False, config={"node.id": 1}) as broker:
        return ask_all(broker.bootstrap_servers)


def differences(kafka: Answers, barnabas: Answers) -> Iterator[str]:
    """One line for each field that differs, after leaving out what is each broker's own."""
    for name in kafka:
        if name not in barnabas:
            yield f"{name}: not asked of the other"
            continue
        ours = _normal(barnabas[name]["answer"])
        for path, left, right in _walk("", _normal(kafka[name]["answer"]), ours):
            if ".api_keys" in path and right == _ABSENT:
                continue  # an API that is not served yet is no wrong answer
            yield f"{name}: {path or 'answer'}: Kafka {left!r}, Barnabas {right!r}"


def _normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _own(key, item) for key, item in value.items() if key not in _NOISE | _WORDS}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return "<uuid>" if isinstance(value, str) and _UUID.match(value) else value


def _own(key: str, value: Any) -> Any:
    if key in OWN and value not in (None, -1, 0, ""):
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
        yield from _walk_lists(path, left, right)
    elif left != right:
        yield path, left, right


def _walk_lists(path: str, left: list[Any], right: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Rows that have a name are matched by it; others by their place."""
    for key in ("name", "api_key", "partition_index", "producer_id"):
        if all(isinstance(row, dict) and key in row for row in (*left, *right)):
            mine, theirs = ({row[key]: row for row in rows} for rows in (left, right))
            if len(mine) == len(left) and len(theirs) == len(right):
                yield from _walk(f"{path}[]", mine, theirs)
                return
    if len(left) != len(right):
        yield f"{path} (length)", len(left), len(right)
    for n, (one, other) in enumerate(zip(left, right, strict=False)):
        yield from _walk(f"{path}[{n}]", one, other)


def markdown(answers: Answers) -> str:
    """Every answer on a line, by API, without the fields that say nothing."""
    lines = ["# What Apache Kafka answers", "", "The JSON beside this file has every field."]
    heading = ""
    for name, entry in answers.items():
        api = entry["api"].split(" ")[0].split(",")[0]
        if api != heading and not name.startswith(" "):
            heading = api
            lines += ["", f"## {api}"]
        text = json.dumps(_brief(entry["answer"]), ensure_ascii=False)
        lines.append(f"- **{name.strip()}**: `{text[:_LINE_CHARS]}`")
    return "\n".join(lines) + "\n"


def _brief(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _brief(item) for key, item in value.items() if key not in _WORDY}
    if isinstance(value, list):
        return [_brief(item) for item in value]
    return value


def main() -> int:
    """Ask one broker, or compare two sets of answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    ask = commands.add_parser("ask")
    ask.add_argument("bootstrap")
    ask.add_argument("answers", type=Path)
    ask.add_argument("--markdown", type=Path)
    diff = commands.add_parser("diff")
    diff.add_argument("kafka", type=Path)
    diff.add_argument("barnabas", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "ask":
        fresh = {"kafka": ask_kafka, "barnabas": ask_barnabas}.get(arguments.bootstrap)
        answers = fresh() if fresh else ask_all(arguments.bootstrap)
        arguments.answers.write_text(json.dumps(answers, indent=1))
        if arguments.markdown:
            arguments.markdown.write_text(markdown(answers))
        return 0
    sides = (json.loads(path.read_text()) for path in (arguments.kafka, arguments.barnabas))
    found = list(differences(*sides))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
