"""Every example in docs/client.md runs, in the order of the page, against a broker."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[int, str]]:
    """The line and text of each example."""
    text = PAGE.read_text()
    return [(text.count("\n", 0, each.start()) + 2, each.group(1)) for each in BLOCK.finditer(text)]


def test_the_examples_run(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks()
    assert len(found) >= 12
    names: dict[str, object] = {"__name__": "docs_client", "BROKER": bootstrap}
    for line, code in found:
        # Blank lines in front, so that a traceback names the line of the page.
        exec(compile("\n" * (line - 1) + code, str(PAGE), "exec"), names)
