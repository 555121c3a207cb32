"""The entry point: a broker is started by the shortest road, everything else through typer."""

import signal
import sys

from barnabas.cli.ending import exit_code


def main() -> None:
    """Run the command line of this process, then exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    return exit_code(lambda: _run(arguments))


def _run(arguments: list[str]) -> None:
    if arguments and arguments[0] in ("up", "broker"):
        # Typer costs as long to import as half a broker, so it is left out where it can be.
        from barnabas.cli.quick import parse

        choices = parse(arguments)
        if choices is not None:
            # A signal that comes before there is anything to stop is obeyed all the same.
            signal.signal(signal.SIGTERM, _stop_at_once)
            signal.signal(signal.SIGINT, _stop_at_once)
            from barnabas.cli.serving import serve_until_stopped

            serve_until_stopped(choices)
            return
    from barnabas.cli.app import app

    app(arguments, prog_name="barnabas")


def _stop_at_once(_number: int, _frame: object) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
