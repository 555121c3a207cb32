"""The house rules that a program can check."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Of the body: a command's signature is the table of its options."""
    return (node.end_lineno or node.lineno) - node.body[0].lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_small_documented_and_finished(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= FILE_LINES_MAX
    assert ast.get_docstring(tree), "a module says what it is for"
    assert path.name not in {"utils.py", "helpers.py", "misc.py"}, "a name that explains itself"
    for mark in ("TODO", "FIXME", "XXX"):
        assert mark not in text, f"{mark} is no place for work that is left"
    too_long = [node.name for node in functions(tree) if length(node) > FUNCTION_LINES_MAX]
    assert not too_long


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_invariants_survive_optimisation(path: Path) -> None:
    """`python -O` drops assert statements; `require()` stays."""
    tree = ast.parse(path.read_text())
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert not lines


def test_every_room_says_what_it_knows_and_what_not() -> None:
    rooms = [path for path in (ROOT / "src/barnabas").iterdir() if (path / "__init__.py").exists()]
    assert len(rooms) > 15
    for room in rooms:
        text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
        assert "now" in text.lower(), f"{room.name}: what does it know?"
        assert len(text.splitlines()) >= 3, f"{room.name}: what does it not know?"


def test_every_served_api_has_its_file_and_its_three_blocks() -> None:
    from barnabas.api.table import SERVED

    for name in SERVED.values():
        text = (
            ast.get_docstring(ast.parse((ROOT / f"src/barnabas/api/{name}.py").read_text())) or ""
        )
        for block in (": v", "Behaviour", "Version notes"):
            assert block in text, f"api/{name}.py lacks {block!r}"


def test_every_promise_names_tests_that_exist() -> None:
    named = re.findall(
        r"`(tests/[\w/]+(?:\.py)?/?)(?:::(\w+))?`", (ROOT / "PROMISES.md").read_text()
    )
    assert len(named) > 15
    for path, test in named:
        assert (ROOT / path).exists(), path
        if test:
            assert f"def {test}(" in (ROOT / path).read_text(), f"{path}::{test}"


def test_every_make_target_the_readme_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert len(named) > 5
    assert named <= targets


def test_every_link_between_documents_leads_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = [
        (document, link)
        for document in documents
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
        if "://" not in link
    ]
    assert len(links) > 15
    for document, link in links:
        assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_kazoo_is_imported_in_one_room_only() -> None:
    room = ROOT / "src/barnabas/world/zookeeper"
    pattern = re.compile(r"^\s*(?:from|import) kazoo", re.MULTILINE)
    where = {path.parent for path in SOURCES if pattern.search(path.read_text())}
    assert where == {room}
