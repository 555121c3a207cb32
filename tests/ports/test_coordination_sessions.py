"""What a coordination tree promises to several sessions: the simulated one and a real ZooKeeper."""

import asyncio

import pytest
from tests.ports.stores import Runner, Store, Told, eventually

from barnabas.ports.coordination import (
    BadVersionError,
    Check,
    Coordination,
    CoordinationLostError,
    Create,
    Delete,
    Node,
    NodeExistsError,
    SessionEvent,
    SessionOverError,
    SetData,
    TooLargeError,
)


async def _node(tree: Coordination, path: str) -> Node:
    node = await tree.get(path)
    assert node is not None
    return node


class TestSharing:
    def test_sessions_have_numbers_of_their_own(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            other = await store.another()
            assert other.session != store.tree.session
            await store.tree.commit(Create("/e", ephemeral=True))
            await other.sync()
            assert (await _node(other, "/e")).owner == store.tree.session

        among(scenario)

    def test_after_sync_what_others_committed_is_read(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            other = await store.another()
            await store.tree.commit(Create("/a"))
            for number in range(20):
                await store.tree.commit(SetData("/a", str(number).encode()))
                await other.sync()
                assert await other.get("/a") == Node(str(number).encode(), number + 1)

        among(scenario)

    def test_a_version_is_taken_once(self, among: Runner) -> None:
        """Two sessions count together: each step is taken by exactly one of them."""

        async def scenario(store: Store) -> None:
            other = await store.another()
            await store.tree.commit(Create("/count", b"0"))

            async def count(tree: Coordination) -> None:
                done = 0
                while done < 15:
                    node = await _node(tree, "/count")
                    data = str(int(node.data) + 1).encode()
                    try:
                        await tree.commit(SetData("/count", data, node.version))
                    except BadVersionError:
                        await tree.sync()
                    else:
                        done += 1

            await other.sync()
            await asyncio.gather(count(store.tree), count(other))
            await other.sync()
            assert await other.get("/count") == Node(b"30", 30)

        among(scenario)

    def test_one_of_two_becomes_controller(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            other = await store.another()
            await store.tree.commit(Create("/epoch", b"0"))
            await other.sync()

            async def take(tree: Coordination) -> bool:
                try:
                    await tree.commit(
                        Create("/controller", ephemeral=True), SetData("/epoch", b"1", 0)
                    )
                except (NodeExistsError, BadVersionError):
                    return False
                return True

            won = await asyncio.gather(take(store.tree), take(other))
            assert sorted(won) == [False, True]
            loser = other if won[0] else store.tree
            with pytest.raises(BadVersionError):
                await loser.commit(Check("/epoch", 0), Create("/late"))

        among(scenario)

    def test_a_watch_tells_of_what_others_do(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            other, told = await store.another(), Told()
            await store.tree.commit(Create("/changes"))
            other.watch("/changes", told)
            await other.sync()
            for count in range(1, 30):
                await store.tree.commit(Create("/changes/change-", sequence=True))
                # Who reads after each call misses nothing, however calls coalesce.
                seen = -1
                while len(await other.children("/changes")) < count:
                    await told.more_than(seen)
                    seen = told.count

        among(scenario)


class TestTheEnd:
    def test_close_removes_ephemeral_nodes_at_once(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            other, told = await store.another(), Told()
            await other.commit(Create("/ids"), Create("/ids/1", ephemeral=True))
            await store.tree.sync()
            store.tree.watch("/ids", told)
            assert list(await store.tree.children("/ids")) == ["1"]
            before = told.count
            await other.close()
            await told.more_than(before)
            await store.tree.sync()
            assert list(await store.tree.children("/ids")) == []

        among(scenario)

    def test_a_session_that_is_over_is_told_and_refused(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree, events, other = store.tree, Told(), await store.another()
            tree.listen(events)
            await tree.commit(Create("/e", ephemeral=True), Create("/p"))
            number = tree.session
            await store.expire(tree)
            await events.until(lambda: SessionEvent.OVER in events.events)
            assert events.events[-1] is SessionEvent.OVER
            assert tree.session == number
            for request in (tree.get("/p"), tree.commit(Create("/late")), tree.sync()):
                with pytest.raises(SessionOverError):
                    await request
            await other.sync()
            assert await other.get("/e") is None
            assert await other.get("/p") == Node(b"", 0)

        among(scenario)

    def test_open_begins_another_and_watches_last(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree, told, events = store.tree, Told(), Told()
            other = await store.another()
            tree.listen(events)
            tree.watch("/p", told)
            await tree.commit(Create("/e", ephemeral=True), Create("/p"))
            first = tree.session
            before = (await _node(tree, "/e")).created
            await store.expire(tree)
            await events.until(lambda: SessionEvent.OVER in events.events)
            called = told.count
            await tree.open()
            assert events.events[-1] is SessionEvent.CONNECTED
            assert tree.session not in (0, first)
            await told.more_than(called)
            await tree.sync()
            await tree.commit(Create("/e", ephemeral=True))
            again = await _node(tree, "/e")
            assert again.created > before
            assert again.owner == tree.session
            called = told.count
            await other.commit(SetData("/p", b"x"))
            await told.more_than(called)

        among(scenario)

    def test_requests_under_way_fail_when_the_session_ends(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree, events = store.tree, Told()
            tree.listen(events)
            await tree.commit(Create("/a"))
            outcomes: list[str] = []

            async def write() -> None:
                while True:
                    try:
                        await tree.commit(SetData("/a", b"x"))
                    except SessionOverError:
                        outcomes.append("over")
                        return
                    except CoordinationLostError:
                        await asyncio.sleep(0.01)

            writing = [asyncio.create_task(write()) for _ in range(5)]
            await asyncio.sleep(0.01)
            await store.expire(tree)
            await events.until(lambda: SessionEvent.OVER in events.events)
            await asyncio.gather(*writing)
            assert outcomes == ["over"] * 5

        among(scenario)

    def test_what_a_dead_session_left_can_be_taken_away(self, among: Runner) -> None:
        """A restarted broker meets its own ephemeral node and knows it by its owner."""

        async def scenario(store: Store) -> None:
            other = await store.another()
            await store.tree.commit(Create("/ids"), Create("/ids/1", b"old", ephemeral=True))
            await other.sync()
            stale = await _node(other, "/ids/1")
            assert stale.owner == store.tree.session
            with pytest.raises(NodeExistsError):
                await other.commit(Create("/ids/1", b"new", ephemeral=True))
            await other.commit(
                Delete("/ids/1", stale.version), Create("/ids/1", b"new", ephemeral=True)
            )
            fresh = await _node(other, "/ids/1")
            assert fresh.created > stale.created
            assert fresh.owner == other.session

        among(scenario)


class TestSize:
    def test_a_commit_that_is_too_large_is_one_clear_error(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            with pytest.raises(TooLargeError, match="several commits"):
                await tree.commit(Create("/a", b"x" * 1_100_000))
            with pytest.raises(TooLargeError):
                await tree.commit(*(Create(f"/{n}", b"x" * 900) for n in range(1000)))
            assert await tree.get("/a") is None, "the connection is none the worse for it"

        among(scenario)

    def test_the_largest_that_is_let_through_is_taken(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            tree = store.tree
            await tree.commit(Create("/a", b"x" * 999_000))
            assert len((await _node(tree, "/a")).data) == 999_000
            await tree.commit(*(Create(f"/n{n:04}") for n in range(5000)))
            assert len(await tree.children("/")) == 5001

        among(scenario)

    def test_a_session_lives_on_while_nothing_is_asked(self, among: Runner) -> None:
        async def scenario(store: Store) -> None:
            first, second = store.tree.session, (await store.another()).session

            async def proven_again() -> bool:
                now = asyncio.get_running_loop().time()
                return store.tree.proven_s() > now - store.tree.session_timeout_s / 3

            await asyncio.sleep(0.5)
            await eventually(proven_again)
            assert first != second
            assert await store.tree.get("/") == Node(b"", 0)

        among(scenario)
