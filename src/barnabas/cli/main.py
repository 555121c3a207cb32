"""The entry point: a broker is started by the shortest road, everything else through typer."""

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
            from barnabas.cli.serving import serve_until_stopped

            serve_until_stopped(choices)
            return
    from barnabas.cli.app import app

    app(arguments, prog_name="barnabas")


if __name__ == "__main__":
    main()
