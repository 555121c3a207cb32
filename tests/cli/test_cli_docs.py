"""The guide names only what there is."""

import re
from pathlib import Path

import typer.main

from barnabas.cli.app import app

GUIDE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_every_flag_in_the_guide_exists_and_every_command_is_in_it() -> None:
    text = GUIDE.read_text()
    known, names = _known(typer.main.get_command(app))
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert mentioned - known == {"--help", "--install-completion"} - known
    for name in names:
        assert f"\n| `barnabas {name}` | " in text


def _known(root: object) -> tuple[set[str], set[str]]:
    """Every flag, and the names of the commands at the top."""
    flags: set[str] = set()
    waiting = [root]
    while waiting:
        command = waiting.pop()
        for option in getattr(command, "params", []):
            flags |= {*option.opts, *option.secondary_opts}
        waiting += getattr(command, "commands", {}).values()
    return flags, set(getattr(root, "commands", {}))
