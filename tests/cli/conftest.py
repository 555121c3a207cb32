"""Commands as people run them, against a real broker."""

import io
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.cli import main
from barnabas.testing import Broker

WAIT_S = 60.0
COMMAND = (sys.executable, "-m", "barnabas")

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


def environment(bootstrap: str = "", **more: str) -> dict[str, str]:
    """Ours without any broker key somebody may have set."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("BARNABAS_")}
    return ours | ({"BARNABAS_BOOTSTRAP": bootstrap} if bootstrap else {}) | more


class Elsewhere(Broker):
    """A broker that runs already, such as a real Kafka: the tests of groups pass there, too."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect."""
        return self._bootstrap


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker on disk for every test; each uses topics and groups of its own."""
    bootstrap = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if bootstrap:
        yield Elsewhere(bootstrap)
        return
    # Groups of tests are of one or two members, which need not wait for each other.
    config = {
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 100,
    }
    data = tmp_path_factory.mktemp("broker")
    with Broker(memory=False, data=data, config=config) as broker:
        yield broker


@pytest.fixture
def process(broker: Broker) -> Run:
    """Run `barnabas …` as a process of its own, against the broker."""

    def process(*arguments: str, stdin: str = "", **more: str) -> Done:
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            env=environment(broker.bootstrap_servers, **more),
            check=False,
        )

    return process


@pytest.fixture
def run(broker: Broker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """As `process`, but inside this one: the same command line without the wait for its start."""
    for name in os.environ:
        if name.startswith("BARNABAS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", broker.bootstrap_servers)

    def run(*arguments: str, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfd.readouterr()
        try:
            code = main.run(list(arguments))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        printed = capfd.readouterr()
        return Done([*COMMAND, *arguments], code, printed.out, printed.err)

    return run


@pytest.fixture
def ok(run: Run) -> Callable[..., str]:
    """As `run`, for commands that must succeed: what they print."""

    def ok(*arguments: str, stdin: str = "") -> str:
        done = run(*arguments, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    return ok


@pytest.fixture
def topic(ok: Callable[..., str]) -> str:
    """A new topic of two partitions."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    ok("topic", "create", name, "--partitions", "2")
    return name


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A directory for a broker of one's own."""
    return tmp_path / "data"
