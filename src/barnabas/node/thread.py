"""A broker on a thread of its own, for tests and notebooks."""

import asyncio
import threading

from barnabas.broker.broker import Broker
from barnabas.config.broker_config import BrokerConfig
from barnabas.node.process import real_outside, run_on_fast_loop
from barnabas.ports.exchange import Address


class BrokerThread:
    """Starts when made; `stop` ends it and raises what went wrong inside."""

    def __init__(self, config: BrokerConfig, *, memory: bool) -> None:
        self._config = config
        self._memory = memory
        self._ready = threading.Event()
        self._address: Address | None = None
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="barnabas-broker", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._address is None:
            self._thread.join()
            raise self._error or RuntimeError("the broker ended before it was ready")

    @property
    def address(self) -> Address:
        """Where it listens."""
        if self._address is None:
            raise RuntimeError("the broker is not running")
        return self._address

    def _run(self) -> None:
        try:
            run_on_fast_loop(self._serve())
        except BaseException as error:  # noqa: BLE001  # handed to the thread that started us
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        failures: list[str] = []
        outside = real_outside(self._config, memory=self._memory)

        def failed(reason: str) -> None:
            failures.append(reason)

        broker = Broker(self._config, outside, failed)
        try:
            self._address = await broker.start()
            self._ready.set()
            await self._ending.wait()
            await broker.stop()
        finally:
            outside.work.close()
        if failures:
            raise OSError(failures[0])

    def stop(self) -> None:
        """Stop cleanly and wait for it."""
        if self._loop is not None and self._ending is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        if self._error is not None:
            raise self._error
