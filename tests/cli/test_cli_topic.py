"""`barnabas topic`, against a real broker."""

import json
import uuid
from collections.abc import Callable

from tests.cli.conftest import Run

Ok = Callable[..., str]


def described(ok: Ok, topic: str) -> dict[str, object]:
    (found,) = json.loads(ok("topic", "describe", topic, "--json"))
    assert isinstance(found, dict)
    return found


def test_create_list_describe_alter_delete(ok: Ok, run: Run) -> None:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    assert ok("topic", "create", name, "-p", "2", "--config", "retention.ms=1000") == (
        f"Created {name}.\n"
    )
    assert (
        ok("topic", "list", f"{name[:10]}*", "--json")
        == json.dumps([{"name": name, "partitions": 2, "internal": False}]) + "\n"
    )
    assert name in ok("topic", "list")
    assert name not in ok("topic", "list", "nothing-*")
    ok("produce", name, "--message", "hello", "--partition", "1")
    found = described(ok, name)
    assert found["configs"] == [
        {"name": "retention.ms", "value": "1000", "source": "DYNAMIC_TOPIC_CONFIG"}
    ]
    second = found["partitions"][1]  # type: ignore[index]
    assert (second["start_offset"], second["end_offset"], second["leader"]) == (0, 1, 0)
    assert second["size"] > 60
    table = ok("topic", "describe", name)
    assert "retention.ms" in table
    assert "in sync" in table
    ok("topic", "alter", name, "--partitions", "3", "--config", "flush.messages=7",
       "--delete-config", "retention.ms")  # fmt: skip
    altered = described(ok, name)
    assert len(altered["partitions"]) == 3  # type: ignore[arg-type]
    assert [each["name"] for each in altered["configs"]] == ["flush.messages"]  # type: ignore[attr-defined]
    assert run("topic", "delete", name, stdin="n\n").returncode == 1
    assert name in ok("topic", "list")
    assert ok("topic", "delete", name, "--yes") == f"Deleted {name}.\n"
    assert name not in ok("topic", "list")


def refused(run: Run, *arguments: str) -> str:
    done = run(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("barnabas: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_what_is_refused_is_said_in_one_sentence(run: Run, topic: str) -> None:
    assert "TOPIC_ALREADY_EXISTS" in refused(run, "topic", "create", topic)
    assert "There is no topic" in refused(run, "topic", "describe", "nothing")
    assert "INVALID_REPLICATION_FACTOR" in refused(run, "topic", "create", "t", "--replicas", "2")
    assert "There is no topic" in refused(run, "topic", "delete", "nothing", "--yes")
    assert "INVALID_CONFIG" in refused(
        run, "topic", "alter", topic, "--config", "retention.ms=soon"
    )
    assert "can not be taken away" in refused(run, "topic", "alter", topic, "--partitions", "1")
    assert "no/slash" in refused(run, "topic", "create", "no/slash")
    misspelt = refused(run, "topic", "alter", topic, "--delete-config", "retnetion.ms")
    assert f"There is no setting retnetion.ms of topic {topic}" in misspelt


def test_creating_again_can_be_fine(ok: Ok, topic: str) -> None:
    assert ok("topic", "create", topic, "--if-not-exists") == f"{topic} is there already.\n"


def test_a_broker_that_is_not_there_is_said_at_once(run: Run) -> None:
    said = refused(run, "topic", "list", "--bootstrap", "127.0.0.1:1")
    assert "barnabas up" in said
    assert "host:port" in refused(run, "topic", "list", "--bootstrap", "127.0.0.1:many")
