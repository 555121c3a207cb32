"""For commands that start servers and stay in the foreground: signals, and who may reach them."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from barnabas.model.errors import BarnabasError


def check_loopback(host: str, allow_insecure: bool, danger: str) -> None:
    """Raise BarnabasError unless `host` is this machine only, or it was said that more is meant.

    `danger` is what whoever reaches it could do.
    """
    from ipaddress import ip_address

    try:
        is_here = ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    if not is_here and not allow_insecure:
        raise BarnabasError(
            f"Whoever reaches {host} could {danger}: add --allow-insecure "
            "if the network is trusted, or leave --host out."
        )


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM end what is inside, with exit code 0."""
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(_number: int, _frame: object) -> NoReturn:
    """Once; while everything stops, which takes seconds at most, nothing more is heard."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(0)
