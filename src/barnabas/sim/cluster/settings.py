"""What kind of cluster a seed has: its size, its timings, and how bad its world is."""

import random
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Drawn once for each seed."""

    brokers: int = 3
    partitions: int = 2
    session_s: float = 3.0
    lag_max_s: float = 3.0
    synced: bool = False
    """Whether every topic has flush.messages=1: then power may go everywhere at once."""
    break_chance: float = 0.0
    """How likely a connection breaks at any piece that arrives."""
    cold: float = 0.05
    """How likely a read has to wait for the disk."""
    stall_chance: float = 0.001
    """How likely a piece of slow work takes seconds."""
    watch_delay_s: float = 0.0
    zookeeper_lag_s: float = 0.02
    zookeeper_break: float = 0.0
    roll_ms: int = 7 * 86_400_000
    """After how long a segment is full."""
    faults_s: float = 40.0
    """For how long things go wrong."""
    faults: int = 10
    nearby: bool = False
    """Whether readers read at followers as often as at leaders: stories of their own."""

    @classmethod
    def draw(cls, seed: int | str) -> Self:
        """Those of a seed."""
        chance = random.Random(f"{seed}/settings")
        return cls(
            brokers=chance.choice([3, 3, 3, 4]),
            partitions=chance.choice([1, 2, 3]),
            session_s=chance.choice([2.0, 3.0, 5.0]),
            lag_max_s=chance.choice([1.0, 2.0, 4.0]),
            synced=chance.random() < 0.2,
            break_chance=chance.choice([0.0, 0.0, 0.001, 0.005]),
            cold=chance.choice([0.0, 0.05, 0.3]),
            stall_chance=chance.choice([0.0, 0.001, 0.02]),
            watch_delay_s=chance.choice([0.0, 0.05, 1.0]),
            zookeeper_lag_s=chance.choice([0.0, 0.02, 0.5]),
            zookeeper_break=chance.choice([0.0, 0.0, 0.01, 0.05]),
            roll_ms=chance.choice([2_000, 10_000, 7 * 86_400_000]),
            faults_s=chance.uniform(22, 36),
            faults=chance.randint(9, 15),
        )
