"""One broker of a cluster on this machine: `python -m barnabas.node.member`.

It is started by `local_broker`. Its keys come as a line of JSON on stdin, which then stays open:
when that ends, whoever started it is gone, and it stops. On stdout it says one line: that it is
ready, or why it is not.
"""

import ctypes
import json
import logging
import signal
import sys
from typing import Final

from barnabas.config.layers import load_broker_config
from barnabas.model.errors import BarnabasError
from barnabas.node.process import serve
from barnabas.ports.exchange import Address

READY: Final = "ready"
FAILED: Final = "failed "
"""Before the reason."""

_PR_SET_PDEATHSIG: Final = 1


def main() -> int:
    """Serve until told to stop; the exit code."""
    # A signal that comes before there is anything to stop is obeyed all the same.
    signal.signal(signal.SIGTERM, _stop_at_once)
    _wake_when_the_parent_dies()
    line = sys.stdin.buffer.readline()
    if not line:
        return 1  # Whoever started us is gone already.
    orders = json.loads(line)
    logging.basicConfig(
        stream=sys.stderr,
        level=orders["log_level"].upper(),
        format="%(asctime)s %(levelname)-7s %(message)s",
        datefmt="%H:%M:%S",
    )
    is_ready = False

    def ready(_address: Address) -> None:
        nonlocal is_ready
        is_ready = True
        print(READY, flush=True)

    try:
        config = load_broker_config(flags=orders["settings"])
        serve(config, memory=False, ready=ready, parent=sys.stdin.fileno())
    except (BarnabasError, OSError) as error:
        sentence = str(error).rstrip(".")
        if is_ready:
            print(f"{sentence}.", file=sys.stderr, flush=True)
        else:
            print(f"{FAILED}{sentence}.", flush=True)
        return 1
    return 0


def _wake_when_the_parent_dies() -> None:
    """A process that stands still (SIGSTOP) does not see its pipe end. To any other, SIGCONT means
    nothing, so it does no harm that only the thread which started us may have ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT))


def _stop_at_once(_number: int, _frame: object) -> None:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
