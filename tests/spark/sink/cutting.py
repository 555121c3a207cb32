"""A wire between client and broker that can lose answers: requests arrive, then it is cut."""

import socket
import threading
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 1 << 16


class CuttingProxy:
    """Listens on a port of its own, to be told to clients as the broker's."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._losing = threading.Event()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _hang_up(self._listener)
        for each in self._open:
            _hang_up(each)
        for thread in self._threads:
            thread.join()

    def serve(self, port: int) -> None:
        """Pass everything on to this port."""
        self._run(self._accept, port)

    def lose_answers(self) -> None:
        """The next bytes of the broker do not arrive, and the connection breaks instead."""
        self._losing.set()

    def _run(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, port: int) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", port))
            except OSError:
                # It has gone: so clients shall see it.
                client.close()
                continue
            self._open += (client, broker)
            self._run(self._pass_on, client, broker, False)
            self._run(self._pass_on, broker, client, True)

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(_CHUNK_BYTES):
                if answers and self._losing.is_set():
                    self._losing.clear()
                    self.cuts += 1
                    break
                target.sendall(data)
        except OSError:
            return
        finally:
            _hang_up(source)
            _hang_up(target)


def _hang_up(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
    finally:
        each.close()
