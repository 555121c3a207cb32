"""`barnabas verify`: sentences for people, objects for programs, exit codes for scripts."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

_SEND = [
    {"process": "w", "type": "invoke", "f": "send", "time": 1, "value": [["send", "t", 0, "a"]]},
    {"process": "w", "type": "ok", "f": "send", "time": 2, "value": [["send", "t", 0, "a", 0]]},
]
_READ = {"process": "r", "type": "ok", "f": "poll", "time": 3_000_002}


def _write(path: Path, *events: object) -> str:
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return str(path)


@pytest.fixture
def clean(tmp_path: Path) -> tuple[str, str]:
    """One run in two files."""
    seen = {**_READ, "value": [["poll", "t", 0, [[0, "a"]]]]}
    return _write(tmp_path / "w.jsonl", *_SEND), _write(tmp_path / "r.jsonl", seen)


@pytest.fixture
def lossy(tmp_path: Path) -> str:
    return _write(tmp_path / "l.jsonl", *_SEND, {**_READ, "value": [["poll", "t", 0, [], 5]]})


def test_nothing_is_wrong(run: Run, clean: tuple[str, str]) -> None:
    done = run("verify", *clean)
    assert done.returncode == 0
    assert "Nothing is wrong." in done.stdout
    assert "worst real-time lag: 0.003 s, until r read 'a' (t-0)." in done.stdout


def test_a_finding_is_a_sentence_and_an_exit_code(run: Run, lossy: str) -> None:
    done = run("verify", lossy)
    assert done.returncode == 1
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("lost-write             t-0: 'a' of w was acknowledged at offset 0")
    assert last == "1 lost-write."


def test_findings_for_programs(run: Run, lossy: str) -> None:
    done = run("verify", lossy, "--json")
    finding, summary = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1
    assert (finding["anomaly"], finding["values"], finding["offsets"]) == ("lost-write", ["a"], [0])
    assert summary["anomalies"] == {"lost-write": 1}


def test_what_is_no_history_is_named(run: Run, tmp_path: Path) -> None:
    done = run("verify", _write(tmp_path / "bad.jsonl", {"process": "w"}))
    assert done.returncode == 1
    assert done.stderr.startswith("barnabas: bad.jsonl:1: type is one of invoke")


def test_a_file_that_is_not_there(run: Run, tmp_path: Path) -> None:
    done = run("verify", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "does not exist" in done.stderr
