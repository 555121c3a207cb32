"""A broker as this process's work: the loop, the signals, the exit code."""

import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barnabas.broker.broker import Broker
from barnabas.broker.outside import Outside
from barnabas.config.broker_config import BrokerConfig
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import Coordination
from barnabas.ports.exchange import Address

T = TypeVar("T")

_log = logging.getLogger(__name__)

_DESCRIPTORS_ENOUGH: Final = 1 << 20
"""As good as unlimited."""

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_ORPHAN_S: Final = 5.0
"""How long a broker whose parent has died may take to stop in an orderly way."""


def real_outside(config: BrokerConfig, *, memory: bool) -> Outside:
    """The real world; with `memory`, files and store live and die with the process."""
    from barnabas.world.clock import RealClock
    from barnabas.world.entropy import RealEntropy
    from barnabas.world.work import ThreadWork

    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        descriptors = _DESCRIPTORS_ENOUGH
    if memory:
        from barnabas.world.memory import MemoryFiles

        files: Any = MemoryFiles()
        store = ":memory:"
    else:
        from barnabas.world.files import DiskFiles

        # Connections may take half of them; what is left is for what comes and goes.
        files = DiskFiles(open_max=descriptors * 3 // 8)
        store = f"{config.log_dir}/metadata.sqlite"
    return Outside(
        clock=RealClock(),
        entropy=RealEntropy(),
        files=files,
        work=ThreadWork(processes=not memory),
        open_coordination=lambda failed: _coordination(config, store, failed),
        descriptors=descriptors,
    )


def _coordination(config: BrokerConfig, store: str, failed: Callable[[str], None]) -> Coordination:
    """ZooKeeper where one is named; else a store of the broker's own."""
    settings = config.cluster
    if settings.zookeeper_connect is None:
        from barnabas.world.embedded import EmbeddedCoordination

        return EmbeddedCoordination(store)
    try:
        from barnabas.world.zookeeper import Tls, ZooKeeperCoordination, ZooKeeperOptions
    except ImportError as error:
        raise BarnabasError(
            "A cluster needs kazoo, the client of ZooKeeper: pip install 'barnabas[cluster]'."
        ) from error
    if not _log.isEnabledFor(logging.DEBUG):
        # What it tells, every second while nobody answers, is told by our own rooms, once.
        logging.getLogger("kazoo").setLevel(logging.ERROR)
    tls = None
    if settings.zookeeper_tls:
        if settings.zookeeper_ca_file is None:
            raise BarnabasError(
                "zookeeper.ssl.client.enable is true, and zookeeper.ssl.ca.file does not say by "
                "which certificates ZooKeeper is known."
            )
        tls = Tls(
            settings.zookeeper_ca_file, settings.zookeeper_cert_file, settings.zookeeper_key_file
        )
    options = ZooKeeperOptions(
        connect=settings.zookeeper_connect,
        session_timeout_s=settings.session_timeout_ms / 1000,
        connect_timeout_s=settings.connection_timeout_ms / 1000,
        auth=settings.zookeeper_auth,
        tls=tls,
    )
    return ZooKeeperCoordination(options, failed)


def run_on_fast_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop, to the end."""
    import uvloop

    return uvloop.run(main)


@dataclass(slots=True)
class _Ending:
    """Why the broker stops; `error` makes the exit code non-zero."""

    asked: asyncio.Event
    error: str | None = None

    def fail(self, reason: str) -> None:
        self.error = reason
        self.asked.set()


async def _serve(
    config: BrokerConfig, memory: bool, ready: Callable[[Address], None], parent: int | None
) -> None:
    ending = _Ending(asyncio.Event())
    with _stopped_by_signals(ending.asked), _stopped_with(parent, ending.asked):
        await _serve_until(ending, config, memory, ready)
    if ending.error is not None:
        raise BarnabasError(f"The broker stopped: {ending.error}")


async def _serve_until(
    ending: _Ending, config: BrokerConfig, memory: bool, ready: Callable[[Address], None]
) -> None:
    outside = real_outside(config, memory=memory)
    broker = Broker(config, outside, ending.fail)
    try:
        address = await _unless_asked_to_stop(broker.start(), ending.asked)
        if address is not None:
            ready(address)
            # What start-up made stays: the collector need not look at it again and again.
            gc.collect()
            gc.freeze()
            await ending.asked.wait()
            await broker.stop()
    finally:
        outside.work.close()


@contextmanager
def _stopped_by_signals(asked: asyncio.Event) -> Iterator[None]:
    """The first signal asks for a clean stop; a third one is not to be argued with.

    Afterwards signals mean what they meant before: the loop would leave them without effect.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}

    def stop() -> None:
        if not asked.is_set():
            _log.info("Stopping: what was written is being made durable.")
            asked.set()
            return
        _log.warning("Still stopping. The next signal ends it at once, and uncleanly.")
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def _stopped_with(parent: int | None, asked: asyncio.Event) -> Iterator[None]:
    """The end of the pipe `parent` means that whoever started us is gone: nothing may outlive it.

    What we need may go as well, at the same moment, so an orderly stop gets some seconds only.
    """
    if parent is None:
        yield
        return
    loop = asyncio.get_running_loop()
    pipe = parent

    def look() -> None:
        if os.read(pipe, 4096):
            return
        loop.remove_reader(pipe)
        _log.warning("Whoever started this broker is gone, so it stops.")
        asked.set()
        loop.call_later(_ORPHAN_S, os._exit, 1)

    loop.add_reader(pipe, look)
    try:
        yield
    finally:
        loop.remove_reader(pipe)


async def _unless_asked_to_stop(start: Coroutine[Any, Any, T], asked: asyncio.Event) -> T | None:
    """The result of `start`, or None when a signal came first: recovery can take long."""
    starting = asyncio.ensure_future(start)
    stopping = asyncio.ensure_future(asked.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        return starting.result()
    starting.cancel()
    await asyncio.wait({starting})
    return None


def serve(
    config: BrokerConfig,
    *,
    memory: bool,
    ready: Callable[[Address], None],
    parent: int | None = None,
) -> None:
    """Run a broker until SIGINT or SIGTERM. Raises BarnabasError when it can not go on.

    `parent` is the reading end of a pipe: when the other end closes, the broker stops as well.
    """
    raise_descriptor_limit()
    run_on_fast_loop(_serve(config, memory, ready, parent))


def raise_descriptor_limit() -> None:
    """A broker needs many files open at once; take as many as the system allows without asking."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
