"""How a session begins, or why it does not: addresses, timeouts, credentials, TLS."""

import asyncio
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import CoordinationError, Create, Node, SessionOverError
from barnabas.world.zookeeper import Tls, ZooKeeperCoordination, ZooKeeperOptions
from barnabas.world.zookeeper_server import ZooKeeperServer, free_ports


def _fail(sentence: str) -> None:
    raise AssertionError(sentence)


async def _opened(options: ZooKeeperOptions) -> ZooKeeperCoordination:
    tree = ZooKeeperCoordination(options, _fail)
    try:
        await tree.open()
    except BaseException:
        await tree.close()
        raise
    return tree


def _chroot() -> str:
    return f"/opening/{uuid.uuid4()}"


def test_nobody_listens() -> None:
    port = free_ports(1)[0]

    async def main() -> None:
        options = ZooKeeperOptions(f"127.0.0.1:{port}", connect_timeout_s=0.5)
        with pytest.raises(BarnabasError, match=r"nobody listens there. Start it"):
            await _opened(options)

    asyncio.run(main())


def test_a_stranger_listens() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            options = ZooKeeperOptions(f"127.0.0.1:{port}", connect_timeout_s=0.5)
            with pytest.raises(BarnabasError, match="is no ZooKeeper, or wants TLS"):
                await _opened(options)

    asyncio.run(main())


def test_who_accepts_and_says_nothing() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            options = ZooKeeperOptions(
                f"127.0.0.1:{port}", session_timeout_s=2, connect_timeout_s=0.5
            )
            with pytest.raises(BarnabasError, match="is no ZooKeeper, or wants TLS"):
                await _opened(options)

    asyncio.run(main())


@pytest.mark.parametrize("connect", ["", "host:port", "host:99999999", ":", "a b:x"])
def test_an_address_that_can_not_be_understood(connect: str) -> None:
    with pytest.raises(BarnabasError, match=r"zookeeper.connect is .*, and should be HOST:PORT"):
        ZooKeeperCoordination(ZooKeeperOptions(connect), _fail)


def test_after_a_failed_opening_the_next_may_succeed(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path, sync=False)

    async def main() -> None:
        options = ZooKeeperOptions(server.connect, connect_timeout_s=0.5)
        tree = ZooKeeperCoordination(options, _fail)
        with pytest.raises(BarnabasError):
            await tree.open()
        with pytest.raises(SessionOverError):
            await tree.get("/")
        await asyncio.to_thread(server.__enter__)
        tree._options = replace(options, connect_timeout_s=60)
        await tree.open()
        assert tree.session != 0
        await tree.close()

    try:
        asyncio.run(main())
    finally:
        server.stop()


def test_the_servers_have_the_last_word_on_timeouts(zookeeper: ZooKeeperServer) -> None:
    async def main() -> None:
        for asked, agreed in ((0.2, 1.0), (3.0, 3.0), (600.0, 60.0)):
            options = ZooKeeperOptions(
                zookeeper.connect, session_timeout_s=asked, connect_timeout_s=30
            )
            tree = await _opened(options)
            assert tree.session_timeout_s == pytest.approx(agreed)
            await tree.close()

    asyncio.run(main())


def test_the_chroot_is_made_and_kept_to(zookeeper: ZooKeeperServer) -> None:
    chroot = _chroot()

    async def main() -> None:
        options = ZooKeeperOptions(f"{zookeeper.connect}{chroot}/deep/")
        trees = await asyncio.gather(_opened(options), _opened(options))
        await trees[0].commit(Create("/a"))
        await trees[1].sync()
        assert list(await trees[1].children("/")) == ["a"]
        whole = await _opened(ZooKeeperOptions(zookeeper.connect))
        assert await whole.get(f"{chroot}/deep/a") == Node(b"", 0)
        await asyncio.gather(*(tree.close() for tree in (*trees, whole)))

    asyncio.run(main())


def test_with_credentials_nobody_else_may_look(zookeeper: ZooKeeperServer) -> None:
    async def main() -> None:
        mine = ZooKeeperOptions(zookeeper.connect + _chroot(), auth="olga:secret")
        tree = await _opened(mine)
        await tree.commit(Create("/a", b"credentials"), Create("/e", ephemeral=True))
        again = await _opened(mine)
        assert await again.get("/a") == Node(b"credentials", 0)
        for auth in (None, "olga:wrong"):
            with pytest.raises(BarnabasError, match=r"refuses us .*check zookeeper.auth"):
                await _opened(replace(mine, auth=auth))
        chroot = mine.chroot()
        stranger = await _opened(ZooKeeperOptions(zookeeper.connect))
        for request in (
            stranger.get(f"{chroot}/a"),
            stranger.children(chroot),
            stranger.commit(Create(f"{chroot}/b")),
        ):
            with pytest.raises(CoordinationError, match="ACLs do not allow it"):
                await request
        await asyncio.gather(*(each.close() for each in (tree, again, stranger)))

    asyncio.run(main())


def test_what_is_written_without_credentials_is_open_to_all(zookeeper: ZooKeeperServer) -> None:
    chroot = _chroot()

    async def main() -> None:
        tree = await _opened(ZooKeeperOptions(zookeeper.connect + chroot))
        await tree.commit(Create("/a"))
        await tree.close()

    asyncio.run(main())
    client = KazooClient(zookeeper.connect)
    client.start(30)
    acls, _ = client.get_acls(f"{chroot}/a")
    assert [acl.id.scheme for acl in acls] == ["world"]
    client.stop()
    client.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server that is 127.0.0.1, and a client, by openssl."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60
        )

    for authority in ("ca", "other-ca"):
        openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority",
            "-keyout", f"{authority}.key", "-out", f"{authority}.pem",
        )  # fmt: skip
    (folder / "names.txt").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("server", "client"):
        openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2",
            "-CAcreateserial", "-extfile", "names.txt", "-out", f"{name}.pem",
        )  # fmt: skip
    both = (folder / "server.key").read_text() + (folder / "server.pem").read_text()
    (folder / "server-both.pem").write_text(both)
    return folder


def test_tls_both_ways(certificates: Path, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    settings = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(certificates / "server-both.pem"),
        "ssl.trustStore.location": str(certificates / "ca.pem"),
        "ssl.clientAuth": "need",
    }
    tls = Tls(
        ca=str(certificates / "ca.pem"),
        certificate=str(certificates / "client.pem"),
        key=str(certificates / "client.key"),
    )

    async def main(plain: str) -> None:
        options = ZooKeeperOptions(f"127.0.0.1:{port}/tls", connect_timeout_s=60, tls=tls)
        tree = await _opened(options)
        await tree.commit(Create("/a"))
        assert await tree.get("/a") == Node(b"", 0)
        await tree.close()
        hurried = replace(options, session_timeout_s=2, connect_timeout_s=1)
        for wrong in (
            replace(tls, ca=str(certificates / "other-ca.pem")),
            replace(tls, certificate=None, key=None),
        ):
            with pytest.raises(BarnabasError, match="did not agree to TLS"):
                await _opened(replace(hurried, tls=wrong))
        with pytest.raises(BarnabasError, match="or wants TLS"):
            await _opened(replace(hurried, tls=None))
        with pytest.raises(BarnabasError, match=r"servers run|TLS"):
            await _opened(replace(hurried, connect=plain))

    with ZooKeeperServer(tmp_path, settings=settings, sync=False) as server:
        asyncio.run(main(server.connect))


def test_certificates_that_can_not_be_used_are_told_at_once(
    certificates: Path, tmp_path: Path
) -> None:
    good = Tls(ca=str(certificates / "ca.pem"), certificate=str(certificates / "server-both.pem"))
    ZooKeeperOptions("127.0.0.1:2181", tls=good).check()
    missing = str(tmp_path / "no.pem")
    for tls, words in (
        (replace(good, ca=missing), r"authority's file .*no\.pem can not be used"),
        (replace(good, certificate=missing), r"certificate .*no\.pem with the key in it"),
        (replace(good, key=str(certificates / "client.key")), r"client\.key can not be used"),
    ):
        with pytest.raises(BarnabasError, match=words):
            ZooKeeperCoordination(ZooKeeperOptions("127.0.0.1:2181", tls=tls), _fail)


@pytest.mark.parametrize("auth", ["olga", "olga:", ":secret", ""])
def test_credentials_that_are_none_are_told_at_once(auth: str) -> None:
    with pytest.raises(BarnabasError, match=r"zookeeper.auth should be USER:PASSWORD"):
        ZooKeeperCoordination(ZooKeeperOptions("127.0.0.1:2181", auth=auth), _fail)
