"""How a run begins, goes on, is stopped and ends; nothing is broken here."""

import argparse
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chaos import copier_process
from tests.chaos.cluster import part as part_module
from tests.chaos.cluster import run as run_module
from tests.chaos.cluster.hosting import HOSTS, Rig
from tests.chaos.cluster.network import Loopback, Network
from tests.chaos.cluster.part import PartRun, Terms
from tests.chaos.cluster.planted import named
from tests.chaos.cluster.results import Part, Results, load, save
from tests.chaos.cluster.run import held, is_done, run
from tests.chaos.copier_process import CopierProcess


class Here(Network):
    """No hosts of their own, and nothing that could be cut."""

    @contextlib.contextmanager
    def inside(self, host: str) -> Iterator[None]:
        yield


def options_of(home: Path, **more: object) -> argparse.Namespace:
    usual = {"home": home, "out": None, "seed": 1, "minutes": 2.0, "part": 1.0, "fresh": False,
             "loopback": False, "no_faults": False, "records": 100}  # fmt: skip
    return argparse.Namespace(**usual | more)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """Parts that were run: each takes a minute that nobody has to wait for."""
    ran: list[Part] = []

    class Quick:
        def __init__(self, part: Part, *_: object) -> None:
            self.part = part

        def run(self) -> Part:
            self.part.seconds = 60.0
            ran.append(self.part)
            return self.part

    monkeypatch.setattr(run_module, "PartRun", Quick)
    monkeypatch.setattr(run_module, "enter_network", lambda *_, **__: Here(HOSTS))
    monkeypatch.setattr(run_module, "commit_here", lambda: "abc1234")
    return ran


# --- what is run -------------------------------------------------------------------------------


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, done: list[Part]) -> None:
    save(tmp_path / "run.json", Results(1, "", [Part(1, 1, 60.0, commit="abc1234")]))
    results = run(options_of(tmp_path), threading.Event())
    assert [part.number for part in results.parts] == [1, 2]
    assert [part.number for part in done] == [2]
    assert done[0].commit == "abc1234"


def test_what_is_done_already_is_not_done_again_with_the_same_code(
    tmp_path: Path, done: list[Part], capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(options_of(tmp_path), threading.Event())
    assert len(done) == 2
    assert run(options_of(tmp_path), threading.Event()) == first
    assert len(done) == 2
    assert "NOTHING WAS RUN" in capsys.readouterr().out


def test_what_is_done_already_begins_anew_with_other_code(
    tmp_path: Path,
    done: list[Part],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(options_of(tmp_path), threading.Event())
    for commit in ("def5678", "def5678+", "def5678+", "", ""):
        done.clear()
        monkeypatch.setattr(run_module, "commit_here", lambda commit=commit: commit)
        run(options_of(tmp_path), threading.Event())
        assert [part.number for part in done] == [1, 2]
        assert "begins anew" in capsys.readouterr().out
        assert [each.commit for each in load(tmp_path / "run.json", 1).parts] == [commit] * 2


def test_a_run_that_was_stopped_early_is_not_finished(tmp_path: Path, done: list[Part]) -> None:
    options = options_of(tmp_path, no_faults=True)
    results = Results(1, "", [Part(1, 1, 60.0, tally={"values acknowledged": 10})])
    assert results.is_clean
    assert not is_done(results, options)
    results.parts[0].tally["values acknowledged"] = 100
    assert is_done(results, options)


# --- what is not touched -----------------------------------------------------------------------


@pytest.mark.parametrize("fresh", [False, True])
def test_nobody_touches_a_run_that_is_under_way(
    tmp_path: Path, done: list[Part], fresh: bool
) -> None:
    (tmp_path / "part-1").mkdir()
    save(tmp_path / "run.json", Results(1, "", [Part(1, 1, 60.0)]))
    with held(tmp_path), pytest.raises(SystemExit, match="Another chaos run"):
        run(options_of(tmp_path, fresh=fresh), threading.Event())
    assert (tmp_path / "part-1").is_dir()
    assert (tmp_path / "run.json").exists()
    assert done == []


def test_nothing_is_forgotten_before_there_is_a_network(
    tmp_path: Path, done: list[Part], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Network:
        raise SystemExit("somebody else has it")

    save(tmp_path / "run.json", Results(1, "", [Part(1, 1, 60.0)]))
    monkeypatch.setattr(run_module, "enter_network", refuse)
    with pytest.raises(SystemExit):
        run(options_of(tmp_path, fresh=True), threading.Event())
    assert len(load(tmp_path / "run.json", 1).parts) == 1


def test_a_fresh_run_forgets_what_was_done_and_leaves_alone_what_is_not_its_own(
    tmp_path: Path, done: list[Part]
) -> None:
    (tmp_path / "part-7").mkdir()
    (tmp_path / "letter").write_text("dear diary")
    save(tmp_path / "run.json", Results(1, "", [Part(1, 1, 60.0)]))
    run(options_of(tmp_path, fresh=True), threading.Event())
    assert [part.number for part in done] == [1, 2]
    assert not (tmp_path / "part-7").exists()
    assert (tmp_path / "letter").exists()


# --- being stopped -----------------------------------------------------------------------------


@pytest.mark.parametrize("interrupted", ["start", "end"])
def test_nothing_is_left_of_a_part_that_somebody_does_not_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    did: list[str] = []

    def step(name: str) -> Callable[..., None]:
        def do(_self: Rig) -> None:
            did.append(name)
            if name == interrupted:
                raise SystemExit(130)

        return do

    for name in ("make_small_disk", "start", "end", "unmount"):
        monkeypatch.setattr(Rig, name, step(name))
    monkeypatch.setattr(part_module, "Crowd", lambda *_: argparse.Namespace(close=lambda: None))
    part = PartRun(Part(1, 1), tmp_path, Here(HOSTS), Terms(1.0, None), print)
    if interrupted == "end":
        monkeypatch.setattr(PartRun, "_live", lambda *_: None)
    with pytest.raises(SystemExit):
        part.run()
    assert did[-2:] == ["end", "unmount"]


def test_who_asks_twice_is_heard_at_once_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", kept.__setitem__)
    stopping = threading.Event()
    run_module._stop(stopping, signal.SIGINT)
    assert stopping.is_set()
    assert kept == {}
    with pytest.raises(SystemExit):
        run_module._stop(stopping, signal.SIGINT)
    assert kept == dict.fromkeys((signal.SIGINT, signal.SIGTERM), signal.SIG_IGN)


def test_ctrl_c_is_not_for_copiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "copier.py"
    script.write_text("import os\nraise SystemExit(0 if os.getpgid(0) == os.getpid() else 1)\n")
    monkeypatch.setattr(copier_process, "_COPIER", script)
    copier = CopierProcess("", 0, 0, tmp_path, 1)
    copier.start()
    child = copier._child
    assert child is not None
    assert child.wait(20) == 0
    copier.close()


def test_ctrl_c_is_not_for_the_proxy() -> None:
    with Loopback(HOSTS) as network:
        assert isinstance(network, Loopback)
        assert network._proxy is not None
        assert os.getpgid(network._proxy.pid) == network._proxy.pid


# --- brokers that are stopped ------------------------------------------------------------------

_BROKER = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))
print("ready", flush=True)
time.sleep({seconds})
"""


@pytest.mark.parametrize(
    ("code", "seconds", "says"),
    [(0, 60, None), (1, 60, "exit code 1"), (0, 0, "had ended before")],
)
def test_a_stop_is_clean_only_with_a_clean_end(
    tmp_path: Path, code: int, seconds: int, says: str | None
) -> None:
    rig = Rig(tmp_path, Here(HOSTS), ("-c", _BROKER.format(code=code, seconds=seconds)))
    broker = rig.brokers[1]
    broker.start()
    broker.wait_ready()
    while not seconds and broker.is_running:
        time.sleep(0.01)
    told = rig.stop_cleanly(1)
    assert told == says if says is None else says in (told or "")
    assert not broker.is_running


# --- planted mistakes --------------------------------------------------------------------------


def test_a_mistake_that_nobody_has_planted_is_not_looked_for() -> None:
    assert named("nobody_looks_where_logs_part").does
    with pytest.raises(argparse.ArgumentTypeError, match="nobody_looks_where_logs_part"):
        named("nobody_looks_where_the_logs_part")
