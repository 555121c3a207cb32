"""What runs of strikes have in common: whom they hit, in which order, how far they are, and how
they go on where they were stopped."""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tests.chaos.broker_process import BrokerProcess
from tests.chaos.pipelines.commands import Command
from tests.chaos.pipelines.saving import load, save


@dataclass(frozen=True)
class Targets:
    """How often each is hit."""

    driver: int
    broker: int
    whole: int

    @property
    def order(self) -> list[str]:
        """Whom each strike hits; half of the drivers lose their Python, half their Java."""
        python = self.driver // 2
        return (
            ["driver"] * python
            + ["driver's Java"] * (self.driver - python)
            + ["broker"] * self.broker
            + ["command"] * self.whole
        )


@dataclass
class Strike:
    """One of them."""

    target: str
    after_s: float
    done: int
    """How much had been done when it came."""


class Lives(Protocol):
    """Everything that runs; `strike` breaks one part, and the rest has to cope."""

    home: Path
    seed: int
    strikes: list[Strike]
    seconds: float

    @property
    def plan(self) -> Targets: ...
    def open(self) -> None: ...
    def strike(self, target: str) -> Strike: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


L = TypeVar("L", bound=Lives)


def strike_all(lives: L, done: str) -> L:
    """Strike as planned, let it finish, judge. `done`: what a strike's number counts."""
    lives.home.mkdir(parents=True, exist_ok=True)
    saved = load(lives.home)
    lives.strikes = [Strike(**each) for each in saved.get("strikes", [])]
    lives.seconds = saved.get("seconds", 0.0)
    began = time.monotonic() - lives.seconds
    order = lives.plan.order
    random.Random(lives.seed).shuffle(order)
    try:
        lives.open()
        for target in order[len(lives.strikes) :]:
            strike = lives.strike(target)
            lives.seconds = time.monotonic() - began
            print(_line(len(lives.strikes), strike, done), file=sys.stderr, flush=True)
            save(lives.home, lives.strikes, lives.seconds)
        lives.finish()
    finally:
        lives.close()
    lives.seconds = time.monotonic() - began
    return lives


def lines_of(strikes: Sequence[Strike], done: str) -> list[str]:
    """Each strike in one line."""
    return [_line(number, strike, done) for number, strike in enumerate(strikes, 1)]


def _line(number: int, strike: Strike, done: str) -> str:
    return f"{number:3}  {strike.target:14} after {strike.after_s:6.1f} s  {strike.done:10,} {done}"


def kills_of(strikes: Sequence[Strike], command: str) -> list[tuple[str, int]]:
    """How often who was killed, in words."""
    hits = Counter(strike.target for strike in strikes)
    return [
        ("SIGKILL to the driver's Python", hits["driver"]),
        ("SIGKILL to the driver's Java", hits["driver's Java"]),
        (f"SIGKILL to `{command}` itself", hits["command"]),
        ("SIGKILL to the broker, and started again", hits["broker"]),
    ]


def hit(
    target: str,
    broker: BrokerProcess,
    command: Command,
    chance: random.Random,
    until: Callable[[Callable[[], bool], str], None],
) -> None:
    """Kill it, and start again what nobody else would."""
    if target == "broker":
        broker.kill()
        time.sleep(chance.uniform(0, 1))
        broker.start()
    elif target == "command":
        command.kill_whole()
        command.start()
    else:
        kill = command.kill_driver if target == "driver" else command.kill_java
        until(kill, f"no {target} could be found")
