"""What is broken is what is named: whom a fault hits, and what counts as one."""

import random
import signal
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.chaos.cluster import crowd as crowd_module
from tests.chaos.cluster import faults, striking
from tests.chaos.cluster.crowd import Crowd, Pace
from tests.chaos.cluster.faults import Fault, Kind
from tests.chaos.cluster.hosting import BROKERS, HOSTS, SERVERS
from tests.chaos.cluster.network import CLIENTS
from tests.chaos.cluster.striking import Striking
from tests.chaos.copier import FENCED
from tests.chaos.group_journal import GroupJournal


class Server:
    """A ZooKeeper server that only notes what it is told."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.told: list[signal.Signals] = []

    def signal(self, number: signal.Signals) -> None:
        self.told.append(number)

    def is_running(self) -> bool:
        return True

    def wait_ready(self) -> None:
        pass


class StandIn:
    """A rig of which nothing runs."""

    def __init__(self, logs: Mapping[int, Path] | None = None) -> None:
        self.leads: int | None = 1
        self.controls: int | None = 2
        self.cuts: set[tuple[str, str]] = set()
        self.paused: list[int] = []
        self.stopped: dict[int, str | None] = dict.fromkeys(BROKERS)
        self.logs = logs or {}
        self.servers = [Server(number) for number in SERVERS]
        self.zookeeper = SimpleNamespace(servers=self.servers, leader=lambda: self.servers[0])
        self.network = SimpleNamespace(
            heal=lambda: None, cut=lambda one, other: self.cuts.add((one, other))
        )
        started = SimpleNamespace(start=lambda: None, wait_ready=lambda: None)
        self.brokers = dict.fromkeys(BROKERS, started)
        self.bootstrap_servers = "127.0.0.1:1"

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self.leads

    def controller(self) -> int | None:
        return self.controls

    def dead(self) -> list[int]:
        return []

    def pause(self, number: int) -> None:
        self.paused.append(number)

    def resume(self, number: int) -> None:
        pass

    def free_disk(self) -> None:
        pass

    def stop_cleanly(self, number: int) -> str | None:
        return self.stopped[number]

    def wait_until_in_sync(self) -> None:
        pass


def a_fault(kind: Kind, target: str) -> Fault:
    return Fault(0, kind, target, 0.0, 0.0, 7)


def strike(rig: Any, kind: Kind, target: str) -> tuple[str | None, list[str]]:
    """Whom it hit, and the complaints."""
    crowd: Any = SimpleNamespace(journal=GroupJournal())
    whom = Striking(rig, crowd, lambda _: None).carry_out(a_fault(kind, target))
    return whom, crowd.journal.problems


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(striking, "_ELECTION_S_MAX", 0.05)


def test_a_broker_cut_from_all_is_cut_from_its_clients_too() -> None:
    for target, number in ((faults.FROM_ALL, 1), (faults.CONTROLLER_ALONE, 2)):
        rig = StandIn()
        strike(rig, Kind.CUT, target)
        one, others = f"broker-{number}", {*HOSTS, CLIENTS} - {f"broker-{number}"}
        assert rig.cuts == {(one, each) for each in others} | {(each, one) for each in others}


@pytest.mark.parametrize("target", [faults.LEADER, faults.FOLLOWER, faults.CONTROLLER])
def test_nobody_is_hit_instead_of_one_who_is_not_there(target: str) -> None:
    rig = StandIn()
    rig.leads = rig.controls = None
    whom, (problem,) = strike(rig, Kind.PAUSE, target)
    assert whom is None
    assert rig.paused == []
    assert "hit nobody" in problem


def test_everything_is_paused_at_once() -> None:
    assert any(each[:2] == (Kind.PAUSE, faults.EVERYTHING) for each in faults._DECK)
    rig = StandIn()
    assert strike(rig, Kind.PAUSE, faults.EVERYTHING) == (faults.EVERYTHING, [])
    assert rig.paused == [*BROKERS]
    assert all(server.told == [signal.SIGSTOP, signal.SIGCONT] for server in rig.servers)


def test_a_restart_that_is_not_clean_is_told() -> None:
    rig = StandIn()
    assert strike(rig, Kind.ROLL, faults.BROKERS)[1] == []
    rig.stopped[2] = "broker 2 did not stop cleanly: exit code -9"
    assert strike(rig, Kind.ROLL, faults.BROKERS)[1] == [rig.stopped[2]]


# --- the crowd ---------------------------------------------------------------------------------


def a_crowd(home: Path) -> Crowd:
    rig: Any = StandIn()
    return Crowd(rig, home, 1, Pace())


def test_a_hijack_counts_when_something_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    class Thief:
        def __init__(self, name: str, *_: object) -> None:
            names.append(name)
            self.has_stolen = len(names) == luck

        def start(self) -> None:
            pass

        def join(self, timeout: float) -> None:
            pass

        def is_alive(self) -> bool:
            return False

    class Victim:
        name, desk, places = "transacting-0", None, ()

    monkeypatch.setattr(crowd_module, "Hijacking", Thief)
    monkeypatch.setattr(crowd_module, "Transacting", Victim)
    crowd = a_crowd(tmp_path)
    crowd.writers = [Victim()]  # type: ignore[list-item]
    luck = 2
    assert crowd.hijack(random.Random(1)) == "transacting-0"
    assert (crowd.hijacks, len(names)) == (1, 2)
    luck = 0
    assert crowd.hijack(random.Random(1)) is None
    assert crowd.hijacks == 1
    assert len(set(names)) == len(names)
    assert crowd.problems == []


def test_a_copier_that_gets_nothing_done_however_often_it_begins_is_told(tmp_path: Path) -> None:
    copier: Any = SimpleNamespace(
        ended=lambda: FENCED, log_text=lambda: "fenced", bury=lambda: None, start=lambda: None,
        progress=SimpleNamespace(commits=0),
    )  # fmt: skip
    crowd = a_crowd(tmp_path)
    crowd.copiers = [copier]
    for _ in range(20):
        copier.progress.commits += 1
        crowd.tend()
    assert crowd.problems == []
    for _ in range(20):
        crowd.tend()
    (problem,) = crowd.problems
    assert "without having committed" in problem
    assert crowd.fenced == 40
