"""What every coordination tree promises."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.model.check import BrokenInvariantError
from barnabas.ports.coordination import (
    BadVersionError,
    Check,
    Coordination,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SetData,
)
from barnabas.world.embedded import EmbeddedCoordination

MAKERS: dict[str, Callable[[Path], Coordination]] = {
    "disk": lambda tmp: EmbeddedCoordination(str(tmp / "metadata.sqlite")),
    "memory": lambda _: EmbeddedCoordination(":memory:"),
}

Scenario = Callable[[Coordination], Awaitable[None]]


@pytest.fixture(params=sorted(MAKERS))
def within(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario], None]:
    """Runs a scenario with a fresh tree, and ends the session after it."""

    async def session(scenario: Scenario) -> None:
        tree = MAKERS[request.param](tmp_path)
        try:
            await scenario(tree)
        finally:
            await tree.close()

    return lambda scenario: asyncio.run(session(scenario))


Within = Callable[[Scenario], None]


class TestReading:
    def test_the_root_always_exists(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            assert await tree.get("/") == Node(b"", 0)
            assert list(await tree.children("/")) == []
            assert dict(await tree.tree("/")) == {}

        within(scenario)

    def test_get_children_and_tree(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            await tree.commit(
                Create("/b", b"B"), Create("/a"), Create("/b/y"), Create("/b/x", b"\0\xff")
            )
            await tree.commit(Create("/b/x/deep", b"D"), Create("/b0"), Create("/b-"))
            assert await tree.get("/b") == Node(b"B", 0)
            assert await tree.get("/none") is None
            assert list(await tree.children("/")) == ["a", "b", "b-", "b0"]
            assert list(await tree.children("/b")) == ["x", "y"]
            assert list(await tree.children("/none")) == []
            assert dict(await tree.tree("/b")) == {
                "/b/x": Node(b"\0\xff", 0),
                "/b/x/deep": Node(b"D", 0),
                "/b/y": Node(b"", 0),
            }
            assert set(await tree.tree("/")) == {
                "/a", "/b", "/b-", "/b0", "/b/x", "/b/x/deep", "/b/y",
            }  # fmt: skip
            assert dict(await tree.tree("/none")) == {}

        within(scenario)

    @pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b"])
    def test_a_malformed_path_is_our_own_mistake(self, within: Within, path: str) -> None:
        async def scenario(tree: Coordination) -> None:
            with pytest.raises(BrokenInvariantError):
                await tree.get(path)
            with pytest.raises(BrokenInvariantError):
                await tree.commit(Create(path))

        within(scenario)


class TestCommit:
    def test_versions_count_changes_of_data(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            await tree.commit(Create("/a", b"0"))
            await tree.commit(SetData("/a", b"1", 0))
            await tree.commit(SetData("/a", b"2"))
            assert await tree.get("/a") == Node(b"2", 2)
            await tree.commit(Create("/a/child"))
            assert await tree.get("/a") == Node(b"2", 2)
            await tree.commit(Delete("/a/child"), Delete("/a", 2), Create("/a"))
            assert await tree.get("/a") == Node(b"", 0)
            await tree.commit(SetData("/", b"root", 0))
            assert await tree.get("/") == Node(b"root", 1)

        within(scenario)

    @pytest.mark.parametrize(
        ("operation", "expected"),
        [
            (Create("/a"), NodeExistsError),
            (Create("/"), NodeExistsError),
            (Create("/none/below"), NoNodeError),
            (SetData("/none", b""), NoNodeError),
            (SetData("/a", b"", 7), BadVersionError),
            (Delete("/none"), NoNodeError),
            (Delete("/a/b", 7), BadVersionError),
            (Delete("/a"), NotEmptyError),
            (Check("/none", 0), NoNodeError),
            (Check("/a", 7), BadVersionError),
            (Create("/eph/below"), CoordinationError),
        ],
    )
    def test_one_refusal_undoes_all(
        self, within: Within, operation: Op, expected: type[CoordinationError]
    ) -> None:
        async def scenario(tree: Coordination) -> None:
            await tree.commit(Create("/a", b"A"), Create("/a/b"), Create("/eph", ephemeral=True))
            before = dict(await tree.tree("/"))
            with pytest.raises(expected):
                await tree.commit(Create("/new"), SetData("/a/b", b"changed"), operation)
            assert dict(await tree.tree("/")) == before
            await tree.commit(Create("/new"))

        within(scenario)

    def test_the_first_error_is_raised(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            with pytest.raises(NoNodeError):
                await tree.commit(Check("/none", 0), Create("/"))
            with pytest.raises(NodeExistsError):
                await tree.commit(Create("/"), Check("/none", 0))

        within(scenario)

    def test_later_operations_see_earlier_ones(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            await tree.commit(
                Create("/a"), Create("/a/b"), SetData("/a", b"1", 0), Check("/a", 1), Delete("/a/b")
            )
            assert dict(await tree.tree("/")) == {"/a": Node(b"1", 1)}

        within(scenario)

    def test_nothing_is_a_commit_too(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            await tree.commit()
            await tree.commit(Check("/", 0))

        within(scenario)


class TestWatch:
    def test_told_of_changes_at_and_below(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            told: list[str] = []
            await tree.commit(Create("/a"), Create("/ab"))
            tree.watch("/a", lambda: told.append("a"))
            tree.watch("/", lambda: told.append("root"))
            steps: list[tuple[Op, list[str]]] = [
                (Create("/a/b"), ["a", "root"]),
                (SetData("/a/b", b"x"), ["a", "root"]),
                (Delete("/a/b"), ["a", "root"]),
                (SetData("/a", b"x"), ["a", "root"]),
                (SetData("/ab", b"x"), ["root"]),
                (Check("/a", 1), []),
                (Delete("/a"), ["a", "root"]),
                (Create("/a"), ["a", "root"]),
            ]
            for operation, expected in steps:
                await tree.commit(operation)
                await _settle()
                assert sorted(told) == expected, operation
                told.clear()

        within(scenario)

    def test_a_watch_may_be_set_on_what_is_not_there_yet(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            told: list[str] = []
            tree.watch("/later/x", lambda: told.append("x"))
            await tree.commit(Create("/later"))
            await _settle()
            assert told == []
            await tree.commit(Create("/later/x"))
            await _settle()
            assert told == ["x"]

        within(scenario)

    def test_a_refused_commit_tells_nobody(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            told: list[str] = []
            tree.watch("/", lambda: told.append("root"))
            with pytest.raises(NoNodeError):
                await tree.commit(Create("/a"), Check("/none", 0))
            await _settle()
            assert told == []

        within(scenario)

    def test_the_callback_sees_the_change_and_may_commit(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            seen: asyncio.Queue[Node | None] = asyncio.Queue()
            tasks: list[asyncio.Task[None]] = []

            async def look() -> None:
                node = await tree.get("/a")
                if node is not None and node.version < 3:
                    await tree.commit(SetData("/a", b"", node.version))
                seen.put_nowait(node)

            tree.watch("/a", lambda: tasks.append(asyncio.ensure_future(look())))
            await tree.commit(Create("/a"))
            assert [await seen.get() for _ in range(4)] == [Node(b"", n) for n in range(4)]

        within(scenario)

    def test_no_call_after_close(self, within: Within) -> None:
        async def scenario(tree: Coordination) -> None:
            told: list[str] = []
            tree.watch("/", lambda: told.append("root"))
            await tree.commit(Create("/a"))
            await tree.close()
            await _settle()
            assert told == []

        within(scenario)


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
