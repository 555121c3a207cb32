"""A broker as this process's work: the loop, the signals, the exit code."""

import asyncio
import gc
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from barnabas.broker.broker import Broker
from barnabas.broker.outside import Outside
from barnabas.config.broker_config import BrokerConfig
from barnabas.model.errors import BarnabasError
from barnabas.ports.exchange import Address

T = TypeVar("T")


def real_outside(config: BrokerConfig, *, memory: bool) -> Outside:
    """The real world; with `memory`, files and store live and die with the process."""
    from barnabas.world.clock import RealClock
    from barnabas.world.embedded import EmbeddedCoordination
    from barnabas.world.entropy import RealEntropy
    from barnabas.world.work import ThreadWork

    if memory:
        from barnabas.world.memory import MemoryFiles

        files: Any = MemoryFiles()
        store = ":memory:"
    else:
        from barnabas.world.files import DiskFiles

        files = DiskFiles()
        store = f"{config.log_dir}/metadata.sqlite"
    return Outside(
        clock=RealClock(),
        entropy=RealEntropy(),
        files=files,
        work=ThreadWork(),
        open_coordination=lambda: EmbeddedCoordination(store),
        descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def run_on_fast_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where there is one, else on the standard loop."""
    if sys.platform != "win32":
        import uvloop

        return uvloop.run(main)
    return asyncio.run(main)


@dataclass(slots=True)
class _Ending:
    """Why the broker stops; `error` makes the exit code non-zero."""

    asked: asyncio.Event
    error: str | None = None

    def fail(self, reason: str) -> None:
        self.error = reason
        self.asked.set()


async def _serve(config: BrokerConfig, memory: bool, ready: Callable[[Address], None]) -> None:
    ending = _Ending(asyncio.Event())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.asked.set)
    outside = real_outside(config, memory=memory)
    broker = Broker(config, outside, ending.fail)
    try:
        ready(await broker.start())
        # What start-up made stays: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        await ending.asked.wait()
        await broker.stop()
    finally:
        outside.work.close()
    if ending.error is not None:
        raise BarnabasError(f"the broker stopped because {ending.error}")


def serve(config: BrokerConfig, *, memory: bool, ready: Callable[[Address], None]) -> None:
    """Run a broker until SIGINT or SIGTERM. Raises BarnabasError when it can not go on."""
    raise_descriptor_limit()
    run_on_fast_loop(_serve(config, memory, ready))


def raise_descriptor_limit() -> None:
    """A broker needs many files open at once; take as many as the system allows without asking."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
