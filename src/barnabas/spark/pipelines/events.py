"""What a driver tells the process that started it: one JSON object a line, on its stderr.

Everything else that writes to stderr, Java above all, goes to the log of Spark meanwhile.
"""

import contextlib
import json
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

_LINE_BYTES_MAX: Final = 4096
"""PIPE_BUF of Linux: so much is written whole or not at all."""
_READ_BYTES: Final = 65536
_STDERR: Final = 2

Event = dict[str, Any]
"""`event` says what happened; mostly there is a `sentence`, and `query` where it is about one."""


class Teller:
    """The driver's end."""

    def __init__(self, *, patient: bool = False) -> None:
        """Take over stderr. `patient` waits for slow readers; else they miss what is too much.

        A terminal that somebody has stopped must not stop a pipeline.
        """
        self._descriptor = os.dup(_STDERR)
        os.set_blocking(self._descriptor, patient)

    def send_noise_to(self, log: str) -> None:
        """From now on whatever Python and Java write to stderr is appended to this file."""
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, _STDERR)
        os.close(descriptor)

    def tell(self, event: str, sentence: str | None = None, **more: object) -> None:
        """One line."""
        said: Event = {"event": event, **more}
        room = _LINE_BYTES_MAX - len(_line(said)) - len(b', "sentence": ""')
        if sentence is not None:
            said["sentence"] = _cut(sentence, room)
        # Whoever started us may be gone; then we shall be ended as well.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._descriptor, _line(said))


class Listener:
    """The other end: `hear` gets every event, in a thread, until nobody can write any more."""

    def __init__(self, hear: Callable[[Event], None]) -> None:
        self._hear = hear
        self._reading, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="events", daemon=True)

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Hear what is still under way."""
        os.close(self.descriptor)
        self._thread.join()
        os.close(self._reading)

    def _listen(self) -> None:
        buffer = b""
        while data := os.read(self._reading, _READ_BYTES):
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                self._take(line)
        self._take(buffer)

    def _take(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if text:
            self._hear(_event(text))


def _event(text: str) -> Event:
    """Lines that are no event of ours were written before the driver had come to itself."""
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    return said if isinstance(said, dict) and "event" in said else note(text)


def note(sentence: str) -> Event:
    """A word to the person that is about no query."""
    return {"event": "note", "sentence": sentence}


def _line(said: Event) -> bytes:
    return json.dumps(said, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _cut(sentence: str, room: int) -> str:
    """As much of it as fits, quoted."""
    while len(_line({"": sentence})) > room and sentence != "…":
        sentence = sentence[: len(sentence) * 9 // 10].rstrip("…") + "…"
    return sentence
