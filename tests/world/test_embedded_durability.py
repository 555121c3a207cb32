"""The embedded store across sessions, kills and damage."""

import asyncio
import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import (
    Create,
    Delete,
    Node,
    NodeExistsError,
    SessionOverError,
    SetData,
)
from barnabas.world.embedded import EmbeddedCoordination

_COMMITTER = """
import asyncio, sys
from barnabas.ports.coordination import *
from barnabas.world.embedded import EmbeddedCoordination

async def main() -> None:
    tree = EmbeddedCoordination(sys.argv[1])
    if await tree.get("/left") is None:
        await tree.commit(Create("/left", b"0"), Create("/right", b"0"))
    await tree.commit(Create("/here", ephemeral=True))
    number = int((await tree.get("/left")).data)
    while True:
        number += 1
        data = str(number).encode()
        await tree.commit(SetData("/left", data), SetData("/right", data))
        print(number, flush=True)

asyncio.run(main())
"""


def test_what_was_committed_survives_kill_9(tmp_path: Path) -> None:
    path = str(tmp_path / "metadata.sqlite")
    chance = random.Random(9)
    acknowledged = 0
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", _COMMITTER, path], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            lines = chance.randint(1, 40)
            for _ in range(lines):
                acknowledged = int(process.stdout.readline())
            process.kill()
            acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
        left, right, here = asyncio.run(_look(path))
        assert left == right
        assert left in (acknowledged, acknowledged + 1)
        assert here is None
        acknowledged = left


async def _look(path: str) -> tuple[int, int, Node | None]:
    tree = EmbeddedCoordination(path)
    left, right = await tree.get("/left"), await tree.get("/right")
    here = await tree.get("/here")
    await tree.close()
    assert left is not None
    assert right is not None
    return int(left.data), int(right.data), here


def test_the_tree_is_there_again_without_the_ephemeral(tmp_path: Path) -> None:
    path = str(tmp_path / "metadata.sqlite")

    async def first() -> None:
        tree = EmbeddedCoordination(path)
        await tree.commit(Create("/a", b"x"), SetData("/a", b"y"), Create("/e", ephemeral=True))
        await tree.close()
        await tree.close()

    async def second() -> None:
        tree = EmbeddedCoordination(path)
        assert dict(await tree.tree("/")) == {"/a": Node(b"y", 1)}
        await tree.close()

    asyncio.run(first())
    asyncio.run(second())


def test_a_second_owner_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = str(tmp_path / "metadata.sqlite")

    async def main() -> None:
        tree = EmbeddedCoordination(path)
        with pytest.raises(BarnabasError, match=r"in use by another process"):
            EmbeddedCoordination(path)
        await tree.commit(Create("/a"))
        await tree.close()
        await EmbeddedCoordination(path).close()

    asyncio.run(main())


def _filled(path: Path) -> None:
    async def main() -> None:
        tree = EmbeddedCoordination(str(path))
        for number in range(200):
            await tree.commit(Create(f"/{number}", b"d" * 300))
        await tree.close()

    asyncio.run(main())


def _overwritten(path: Path) -> None:
    path.write_bytes(b"this is not a database at all, by no means" * 100)


def _cut(path: Path) -> None:
    _filled(path)
    path.write_bytes(path.read_bytes()[:10_000])


def _scribbled(path: Path) -> None:
    _filled(path)
    data = bytearray(path.read_bytes())
    data[4096 : 4096 * 6] = random.Random(3).randbytes(4096 * 5)
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [_overwritten, _cut, _scribbled])
def test_damage_is_told_in_one_sentence(harm: object, tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    assert callable(harm)
    harm(path)
    with pytest.raises(BarnabasError, match=r"is damaged .*: restore it") as caught:
        EmbeddedCoordination(str(path))
    assert str(path) in str(caught.value)


def test_no_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(BarnabasError, match="can not be opened"):
        EmbeddedCoordination(str(tmp_path / "no" / "metadata.sqlite"))


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(BarnabasError, match="another program"):
        EmbeddedCoordination(str(path))
    assert path.read_bytes() == before


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    _filled(path)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 3")
    database.close()
    with pytest.raises(BarnabasError, match="has format 3"):
        EmbeddedCoordination(str(path))


_FORMAT_1 = (
    """CREATE TABLE nodes (
        path TEXT PRIMARY KEY,
        parent TEXT NOT NULL,
        data BLOB NOT NULL,
        version INTEGER NOT NULL,
        ephemeral INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX nodes_by_parent ON nodes (parent)",
    "INSERT INTO nodes VALUES ('/', '', x'', 0, 0)",
    "INSERT INTO nodes VALUES ('/b', '/', x'62', 3, 0)",
    "INSERT INTO nodes VALUES ('/b/c', '/b', x'63', 0, 0)",
    "INSERT INTO nodes VALUES ('/e', '/', x'', 0, 1)",
    "PRAGMA application_id = 1112690242",
    "PRAGMA user_version = 1",
)


def test_a_store_of_format_1_is_carried_over(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    with sqlite3.connect(path) as database:
        for statement in _FORMAT_1:
            database.execute(statement)
    database.close()

    async def scene() -> None:
        for _ in range(2):
            tree = EmbeddedCoordination(str(path))
            found = await tree.tree("/")
            assert dict(found) == {"/b": Node(b"b", 3), "/b/c": Node(b"c", 0)}
            assert 0 < found["/b"].created < found["/b/c"].created
            await tree.commit(Create("/b/new"), Create("/b/n-", sequence=True))
            new = await tree.get("/b/new")
            assert new is not None
            assert new.created > found["/b/c"].created
            numbered = [name for name in await tree.children("/b") if name.startswith("n-")]
            await tree.commit(Delete("/b/new"), Delete(f"/b/{numbered[0]}"))
            await tree.close()

    asyncio.run(scene())


def test_a_carrying_over_that_is_interrupted_leaves_the_old_format(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    with sqlite3.connect(path) as database:
        for statement in _FORMAT_1:
            database.execute(statement)
        database.execute("CREATE TABLE counters (in_the_way)")
    database.close()
    with pytest.raises(BarnabasError, match="can not be opened"):
        EmbeddedCoordination(str(path))
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        assert database.execute("SELECT count(*) FROM nodes").fetchone() == (4,)
        database.execute("DROP TABLE counters")
    database.close()

    async def scene() -> None:
        tree = EmbeddedCoordination(str(path))
        assert list(await tree.tree("/")) == ["/b", "/b/c"]
        await tree.close()

    asyncio.run(scene())


def test_sessions_and_creations_are_counted_over_restarts(tmp_path: Path) -> None:
    path = str(tmp_path / "metadata.sqlite")
    seen: list[tuple[int, int, int]] = []

    async def scene() -> None:
        tree = EmbeddedCoordination(path)
        await tree.commit(Create("/e", ephemeral=True))
        node = await tree.get("/e")
        assert node is not None
        seen.append((tree.session, node.owner, node.created))
        await tree.close()

    for _ in range(3):
        asyncio.run(scene())
    assert [session for session, _, _ in seen] == [1, 2, 3]
    assert [owner for _, owner, _ in seen] == [1, 2, 3]
    assert seen[0][2] < seen[1][2] < seen[2][2]


def test_a_store_may_be_opened_on_one_thread_and_used_on_another() -> None:
    tree = EmbeddedCoordination(":memory:")
    seen: list[Node | None] = []

    async def use() -> None:
        await tree.commit(Create("/a"))
        seen.append(await tree.get("/a"))
        await tree.close()

    thread = threading.Thread(target=lambda: asyncio.run(use()))
    thread.start()
    thread.join()
    assert seen == [Node(b"", 0)]


def test_a_closed_store_says_so() -> None:
    async def main() -> None:
        tree = EmbeddedCoordination(":memory:")
        await tree.close()
        with pytest.raises(SessionOverError, match="is closed"):
            await tree.get("/")
        with pytest.raises(SessionOverError, match="is closed"):
            await tree.commit(Create("/a"))

    asyncio.run(main())


def test_many_commits_between_two_turns_are_told_once() -> None:
    async def main() -> None:
        tree = EmbeddedCoordination(":memory:")
        told: list[int] = []
        tree.watch("/", lambda: told.append(1))
        for number in range(10):
            await tree.commit(Create(f"/{number}"))
        await asyncio.sleep(0)
        assert told == [1]
        await tree.close()

    asyncio.run(main())


def _many(count: int = 3_000) -> list[Create]:
    return [Create("/many"), *(Create(f"/many/{number}") for number in range(count))]


def test_a_large_commit_lets_others_go_on_and_shows_nothing_half_done(tmp_path: Path) -> None:
    async def scene() -> None:
        tree = EmbeddedCoordination(str(tmp_path / "metadata.sqlite"))
        large = asyncio.ensure_future(tree.commit(*_many()))
        turns = 0
        asked = None
        while not large.done():
            await asyncio.sleep(0)
            turns += 1
            if asked is None:
                asked = asyncio.ensure_future(tree.children("/many"))
                following = asyncio.ensure_future(tree.commit(Create("/many/last")))
        assert turns >= 10
        assert asked is not None
        assert len(await asked) == 3_000, "all of it, and not what came later"
        await following
        assert len(await tree.children("/many")) == 3_001
        await tree.close()

    asyncio.run(scene())


def test_a_large_commit_that_is_cancelled_or_fails_leaves_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        tree = EmbeddedCoordination(str(tmp_path / "metadata.sqlite"))
        large = asyncio.ensure_future(tree.commit(*_many()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        large.cancel()
        with pytest.raises(asyncio.CancelledError):
            await large
        assert await tree.tree("/") == {}
        with pytest.raises(NodeExistsError):
            await tree.commit(*_many(), Create("/many"))
        assert await tree.tree("/") == {}
        await tree.commit(Create("/after"))
        await tree.close()

    asyncio.run(scene())
