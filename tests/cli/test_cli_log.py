"""`barnabas log`, on the files of a broker that is running."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run

from barnabas.testing import Broker

Ok = Callable[..., str]


def test_a_running_brokers_files_are_shown_and_sound(ok: Ok, topic: str, broker: Broker) -> None:
    ok("produce", topic, "--key", "k", "--header", "h=v", "--compression", "zstd",
       stdin="".join(f"value {number} {'x' * 50}\n" for number in range(20)))  # fmt: skip
    lines = ok("log", "dump", broker.data, "--json").splitlines()
    dumped = [each for each in map(json.loads, lines) if each["topic"] == topic]
    consumed = [json.loads(line) for line in ok("consume", topic, "-e", "--json").splitlines()]
    assert dumped == consumed
    assert len(dumped) == 20
    assert "no problems" in ok("log", "verify", broker.data)
    folder = f"{broker.data}/{topic}-{dumped[0]['partition']}"
    assert "value 0" in ok("log", "dump", folder)
    (batch,) = [json.loads(line) for line in ok("log", "dump", folder, "--batches", "--json")
                .splitlines()]  # fmt: skip
    assert (batch["codec"], batch["valid"], batch["records"]) == ("zstd", True, 20)
    assert "zstd" in ok("log", "dump", f"{folder}/00000000000000000000.log", "--batches")


def test_damage_is_named_and_the_exit_code_is_1(run: Run, topic: str, broker: Broker, ok: Ok,
                                                tmp_path: Path) -> None:  # fmt: skip
    ok("produce", topic, "--partition", "0", "--message", "precious")
    copy = tmp_path / f"{topic}-0"
    copy.mkdir()
    log = copy / "00000000000000000000.log"
    data = bytearray(Path(broker.data, f"{topic}-0", log.name).read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    done = run("log", "verify", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{log}: byte 0: the batch is damaged")
    (problem,) = map(json.loads, run("log", "verify", str(tmp_path), "--json").stdout.splitlines())
    assert (problem["file"], problem["position"]) == (str(log), 0)
    shown = run("log", "dump", str(tmp_path), "--json")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "byte 0" in shown.stderr
    assert log.read_bytes() == data


def test_small_files_are_shown(ok: Ok, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "leader-epoch-checkpoint"
    file.write_text("0\n1\n3 40\n")
    assert ok("log", "dump", str(file)).split() == ["epoch", "start_offset", "3", "40"]
    assert json.loads(ok("log", "dump", str(file), "--json")) == {"epoch": 3, "start_offset": 40}
    file.write_text("0\n2\n3 40\n")
    assert "damaged" in run("log", "dump", str(file)).stderr
    index = tmp_path / "00000000000000000100.index"
    index.write_bytes(bytes(80))
    assert "no entries" in ok("log", "dump", str(index))


def test_places_without_a_log_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for arguments in (
        ("dump", str(tmp_path)),
        ("dump", str(tmp_path / "nothing")),
        ("dump", str(tmp_path / "notes.txt")),
        ("verify", str(tmp_path)),
        ("verify", str(tmp_path / "notes.txt")),
    ):
        done = run("log", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("barnabas: ")
        assert done.stderr.count("\n") == 1
