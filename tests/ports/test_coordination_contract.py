"""What every coordination tree promises to one session."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.ports.stores import Runner, Store, Told, eventually

from barnabas.model.check import BrokenInvariantError
from barnabas.ports.coordination import (
    BadVersionError,
    Check,
    Coordination,
    CoordinationError,
    CoordinationLostError,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SessionOverError,
    SetData,
)


async def _node(tree: Coordination, path: str) -> Node:
    node = await tree.get(path)
    assert node is not None
    return node


class TestReading:
    def test_the_root_always_exists(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            assert await store.tree.get("/") == Node(b"", 0)
            assert list(await store.tree.children("/")) == []
            assert dict(await store.tree.tree("/")) == {}

        within(scenario)

    def test_get_children_and_tree(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
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

    def test_what_was_written_is_read_at_once(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/a", b"0"))
            for number in range(1, 30):
                await tree.commit(SetData("/a", str(number).encode()))
                assert await tree.get("/a") == Node(str(number).encode(), number)

        within(scenario)

    def test_requests_are_done_in_the_order_they_are_made(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/a"))
            tasks: list[asyncio.Task[Any]] = []
            for number in range(20):
                tasks.append(asyncio.create_task(tree.commit(SetData("/a", b"", number))))
                tasks.append(asyncio.create_task(tree.get("/a")))
            answers = await asyncio.gather(*tasks)
            assert answers[1::2] == [Node(b"", number + 1) for number in range(20)]

        within(scenario)

    def test_a_large_tree_is_read_whole(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(
                Create("/t"), *(Create(f"/t/{number:04}", b"x" * 20) for number in range(1500))
            )
            await tree.commit(*(Create(f"/t/{number:04}/state") for number in range(1500)))
            assert len(await tree.children("/t")) == 1500
            assert len(await tree.tree("/")) == 3001

        within(scenario)

    def test_sync_comes_back(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            await store.tree.sync()

        within(scenario)

    @pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b"])
    def test_a_malformed_path_is_our_own_mistake(self, within: Runner, path: str) -> None:
        async def scenario(store: Store) -> None:
            with pytest.raises(BrokenInvariantError):
                await store.tree.get(path)
            with pytest.raises(BrokenInvariantError):
                await store.tree.commit(Create(path))
            with pytest.raises(BrokenInvariantError):
                store.tree.watch(path, lambda: None)

        within(scenario)


class TestCommit:
    def test_versions_count_changes_of_data(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
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
            (Create("/none/below-", sequence=True), NoNodeError),
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
        self, within: Runner, operation: Op, expected: type[CoordinationError]
    ) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/a", b"A"), Create("/a/b"), Create("/eph", ephemeral=True))
            before = dict(await tree.tree("/"))
            with pytest.raises(expected):
                await tree.commit(Create("/new"), SetData("/a/b", b"changed"), operation)
            with pytest.raises(expected):
                await tree.commit(operation)
            assert dict(await tree.tree("/")) == before
            await tree.commit(Create("/new"))

        within(scenario)

    def test_the_root_can_not_be_deleted(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            with pytest.raises(BrokenInvariantError):
                await store.tree.commit(Delete("/"))

        within(scenario)

    def test_the_first_error_is_raised(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            with pytest.raises(NoNodeError):
                await store.tree.commit(Check("/none", 0), Create("/"))
            with pytest.raises(NodeExistsError):
                await store.tree.commit(Create("/"), Check("/none", 0))

        within(scenario)

    def test_later_operations_see_earlier_ones(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(
                Create("/a"), Create("/a/b"), SetData("/a", b"1", 0), Check("/a", 1), Delete("/a/b")
            )
            assert dict(await tree.tree("/")) == {"/a": Node(b"1", 1)}

        within(scenario)

    def test_nothing_is_a_commit_too(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            await store.tree.commit()
            await store.tree.commit(Check("/", 0))

        within(scenario)

    def test_a_check_changes_nothing(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/epoch", b"1"), Create("/a"))
            await tree.commit(Check("/epoch", 0), SetData("/a", b"x", 0))
            assert await tree.get("/epoch") == Node(b"1", 0)
            with pytest.raises(BadVersionError):
                await tree.commit(Check("/epoch", 1), SetData("/a", b"y", 1))
            assert await tree.get("/a") == Node(b"x", 1)

        within(scenario)

    def test_data_may_be_any_bytes_and_names_any_letters(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            data = bytes(range(256)) * 400
            await store.tree.commit(Create("/söme näme.x_1-2", data))
            assert await store.tree.get("/söme näme.x_1-2") == Node(data, 0)
            assert list(await store.tree.children("/")) == ["söme näme.x_1-2"]

        within(scenario)


class TestCreated:
    def test_it_rises_from_commit_to_commit(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            seen: list[int] = []
            for path in ("/b", "/a", "/a/x"):
                await tree.commit(Create(path))
                seen.append((await _node(tree, path)).created)
            await tree.commit(Delete("/b"))
            await tree.commit(Create("/b"))
            seen.append((await _node(tree, "/b")).created)
            await tree.commit(Delete("/b"), Create("/b"))
            seen.append((await _node(tree, "/b")).created)
            assert seen == sorted(set(seen))
            assert seen[0] > 0

        within(scenario)

    def test_it_stays_when_the_data_changes(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/a"))
            before = (await _node(tree, "/a")).created
            await tree.commit(SetData("/a", b"x"), Create("/a/b"))
            assert (await _node(tree, "/a")).created == before
            assert (await tree.tree("/"))["/a"].created == before

        within(scenario)


class TestSequence:
    def test_numbers_rise_and_are_never_used_again(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/c"), Create("/d"))
            seen: list[str] = []
            for _ in range(5):
                await tree.commit(Create("/c/change-", b"x", sequence=True))
                names = await tree.children("/c")
                assert len(names) == 1
                seen.append(names[0])
                await tree.commit(Delete(f"/c/{names[0]}"))
            assert seen == sorted(set(seen))
            assert all(len(name) == len("change-") + 10 and name[7:].isdigit() for name in seen)

        within(scenario)

    def test_several_in_one_commit(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/c"))
            await tree.commit(*(Create("/c/n-", bytes([i]), sequence=True) for i in range(10)))
            await tree.commit(Create("/c/n-", bytes([10]), sequence=True, ephemeral=True))
            found = await tree.tree("/c")
            assert [found[path].data for path in sorted(found)] == [bytes([i]) for i in range(11)]
            assert [found[path].owner for path in sorted(found)] == [0] * 10 + [tree.session]

        within(scenario)

    def test_a_refused_one_leaves_nothing(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/c"))
            with pytest.raises(NoNodeError):
                await tree.commit(Create("/c/n-", sequence=True), Check("/none", 0))
            assert list(await tree.children("/c")) == []

        within(scenario)


class TestSession:
    def test_it_has_a_number_and_a_timeout(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            assert store.tree.session != 0
            assert 0 < store.tree.session_timeout_s < 1_000

        within(scenario)

    def test_ephemeral_nodes_name_their_owner(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/e", b"x", ephemeral=True), Create("/p"))
            assert (await _node(tree, "/e")).owner == tree.session
            assert (await _node(tree, "/p")).owner == 0
            assert (await tree.tree("/"))["/e"].owner == tree.session

        within(scenario)

    def test_proof_of_life_is_never_in_the_future_and_moves_on(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree, now = store.tree, asyncio.get_running_loop().time
            first = now()
            await tree.sync()
            assert first - 0.01 <= tree.proven_s() <= now() + 0.01
            await asyncio.sleep(0.02)
            second = now()
            await tree.commit(Create("/a"))
            assert second - 0.01 <= tree.proven_s() <= now() + 0.01

        within(scenario)

    def test_proof_comes_by_itself(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            before = store.tree.proven_s()

            async def later() -> bool:
                return store.tree.proven_s() > before

            await eventually(later)

        within(scenario)

    def test_after_close_everything_says_so(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree, told = store.tree, Told()
            tree.listen(told)
            await tree.commit(Create("/a"))
            await tree.close()
            await tree.close()
            requests = (
                tree.get("/"), tree.children("/"), tree.tree("/"), tree.commit(), tree.sync(),
                tree.commit(Create("/b")),
            )  # fmt: skip
            for request in requests:
                with pytest.raises(SessionOverError):
                    await request
            assert told.events == [], "who closes a session need not be told that it is over"
            assert issubclass(SessionOverError, CoordinationLostError)

        within(scenario)


class TestWatch:
    def test_told_of_the_node_and_of_children_that_come_and_go(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree, told = store.tree, Told()
            await tree.commit(Create("/a"), Create("/ab"))
            tree.watch("/a", told)
            await tree.sync()
            steps: Sequence[Op] = [
                Create("/a/b"),
                Delete("/a/b"),
                SetData("/a", b"x"),
                Create("/a/c-", sequence=True),
                Create("/a/e", ephemeral=True),
                Delete("/a/e"),
            ]
            for step in steps:
                before = told.count
                await tree.commit(step)
                await told.more_than(before)

        within(scenario)

    def test_told_when_it_goes_and_comes_again(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree, told = store.tree, Told()
            tree.watch("/later/x", told)
            await tree.commit(Create("/later"))
            for _ in range(3):
                before = told.count
                await tree.commit(Create("/later/x"))
                await told.more_than(before)
                before = told.count
                await tree.commit(Create("/later/x/child"))
                await told.more_than(before)
                before = told.count
                await tree.commit(Delete("/later/x/child"), Delete("/later/x"))
                await told.more_than(before)

        within(scenario)

    def test_the_root_can_be_watched(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            told = Told()
            store.tree.watch("/", told)
            await store.tree.commit(Create("/a"))
            await told.more_than(0)

        within(scenario)

    def test_everyone_who_watches_is_told(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            first, second = Told(), Told()
            store.tree.watch("/a", first)
            store.tree.watch("/a", second)
            await store.tree.commit(Create("/a"))
            await first.more_than(0)
            await second.more_than(0)

        within(scenario)

    def test_the_last_state_is_seen_after_the_last_call(self, within: Runner) -> None:
        """However calls coalesce: who reads at each call ends with the newest."""

        async def scenario(store: Store) -> None:
            tree = store.tree
            seen: asyncio.Queue[int] = asyncio.Queue()
            tasks: list[asyncio.Task[None]] = []

            async def look() -> None:
                node = await tree.get("/a")
                seen.put_nowait(-1 if node is None else node.version)

            tree.watch("/a", lambda: tasks.append(asyncio.ensure_future(look())))
            await tree.commit(Create("/a"))
            for number in range(50):
                await tree.commit(SetData("/a", b"", number))
            async with asyncio.timeout(30):
                while await seen.get() != 50:
                    pass
            await asyncio.gather(*tasks)

        within(scenario)

    def test_the_callback_sees_the_change_and_may_commit(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            tasks: list[asyncio.Task[None]] = []

            async def look() -> None:
                node = await tree.get("/a")
                if node is not None and node.version < 3:
                    try:
                        await tree.commit(SetData("/a", b"", node.version))
                    except BadVersionError:
                        return  # called twice for one change: the other one did it
                elif node is not None and not done.done():
                    done.set_result(None)

            tree.watch("/a", lambda: tasks.append(asyncio.ensure_future(look())))
            await tree.commit(Create("/a"))
            async with asyncio.timeout(30):
                await done
            await asyncio.gather(*tasks)

        within(scenario)

    def test_no_call_after_close(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            told = Told()
            store.tree.watch("/", told)
            await store.tree.commit(Create("/a"))
            await store.tree.close()
            before = told.count
            for _ in range(5):
                await asyncio.sleep(0.01)
            assert told.count == before

        within(scenario)


class TestOpening:
    def test_a_second_opening_is_our_own_mistake(self, within: Runner) -> None:
        async def scenario(store: Store) -> None:
            with pytest.raises(BrokenInvariantError):
                await store.tree.open()

        within(scenario)
