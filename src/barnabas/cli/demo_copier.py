"""The demonstration's copier: reads, transforms and writes exactly once, whatever kills it.

    python -m barnabas.cli.demo_copier BOOTSTRAP SOURCE TARGET

It prints how many events it has handed over so far, and ends when there are no more.
"""

import subprocess
import sys
from typing import Final

from barnabas.client import Consumer, Producer
from barnabas.model.errors import BarnabasError

_IDLE_S: Final = 2.0
_SESSION_MS: Final = 6000
"""Whoever was killed says no goodbye: its successor waits for so long."""
_TELL_EVERY: Final = 100


def copy(bootstrap: str, source: str, target: str) -> None:
    """What is sent, and how far was read, commit as one."""
    with (
        Producer(bootstrap, transactional_id=f"{source}-copier") as producer,
        Consumer(
            source,
            "copiers",
            bootstrap,
            delivery="exactly-once",
            producer=producer,
            commit_every=500,
            timeout=_IDLE_S,
            config={"session.timeout.ms": _SESSION_MS},
        ) as consumer,
    ):
        count = 0
        while not _is_done(consumer):
            for message in consumer:
                producer.post(
                    target, message.text.upper(), key=message.key, partition=message.partition
                )
                count += 1
                if count % _TELL_EVERY == 0:
                    print(count, flush=True)


def _is_done(consumer: Consumer) -> bool:
    """Not while its predecessor's session goes on, nor while a busy machine makes it wait."""
    return bool(consumer.assignment) and not any(consumer.lag().values())


def start(bootstrap: str, source: str, target: str) -> "subprocess.Popen[str]":
    """A copier as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.demo_copier", bootstrap, source, target],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def copied(copier: "subprocess.Popen[str]", count: int) -> int:
    """Wait until it has handed over so many; how many it was then."""
    for line in copier.stdout or ():
        if int(line) >= count:
            return int(line)
    raise BarnabasError("The demonstration found a mismatch: a copier ended too early.")


if __name__ == "__main__":
    copy(*sys.argv[1:])
