"""How a command ends: one sentence on stderr and an exit code, whatever went wrong."""

import os
import select
import sys
from collections.abc import Callable
from typing import Final

from barnabas.model.errors import BarnabasError

FAILED: Final = 1
INTERRUPTED: Final = 130


def exit_code(work: Callable[[], object]) -> int:
    """Run `work`; expected problems become a sentence and a code, bugs a traceback."""
    try:
        work()
        sys.stdout.flush()
    except BarnabasError as error:
        return fail(str(error))
    except BrokenPipeError:
        return hang_up()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        return fail(_sentence(error))
    return 0


def fail(sentence: str) -> int:
    """Say what is wrong; the code to exit with."""
    print(f"barnabas: {sentence}", file=sys.stderr, flush=True)
    return FAILED


def hang_up() -> int:
    """Whoever read our output has enough (`| head`): that is an end, not a failure."""
    # What is still buffered must go somewhere, or the interpreter complains at its end.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return 0


def check_somebody_reads() -> None:
    """Raise BrokenPipeError when the reader of our output has gone.

    Writing would tell as well, but a command that waits for something to write may wait for ever.
    """
    watch = select.poll()
    watch.register(sys.stdout.fileno(), select.POLLERR)
    if any(event & select.POLLERR for _, event in watch.poll(0)):
        raise BrokenPipeError


def _sentence(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {what}." if error.filename else f"{what}."
