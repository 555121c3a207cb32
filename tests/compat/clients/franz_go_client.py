"""franz-go behind the common port."""

import subprocess
from functools import cache
from pathlib import Path

from tests.compat.clients.child import SOURCES, ChildClient
from tests.compat.port import CODECS, Can
from tests.compat.real_kafka import CACHE


class FranzGoClient(ChildClient):
    """The Go library; it speaks the newest version of everything."""

    name = "franz-go"
    codecs = CODECS
    can = frozenset(Can)

    @classmethod
    def command(cls) -> list[str]:
        return [str(_program())]


@cache
def _program() -> Path:
    program = CACHE / "franz-go" / "driver"
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=SOURCES / "go",
        check=True,
        capture_output=True,
        timeout=600,
    )
    return program
