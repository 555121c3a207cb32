"""For every test: properties take the time they need, since machines are busy and cores few.

What needs more than Python, Java and make, or minutes, is left out of a plain `pytest`: ask for it
by its marker.
"""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from barnabas.world.zookeeper_server import ZooKeeperServer

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
# A Java that lives for a test: it compiles once instead of twice, with no threads for its garbage.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A shell starts what runs in the background deaf to Ctrl-C, and so would be all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ONE_BY_ONE = ("tests/sim/test_cluster_seeds.py", "tests/sim/test_planted_mistakes.py")
"""Files without fixtures to share, whose tests take many seconds each."""


LONG = (
    "tests/spark/",
    "tests/cli/test_pipeline_commands.py",
    "tests/failover/",
    "tests/cli/test_spark_commands.py",
    "tests/cli/test_sql_command.py",
    "tests/cli/test_archive_commands.py",
    "tests/sim/test_cluster_seeds.py",
)
"""What takes minutes comes first: begun last, it would keep one process busy, the others idle."""


class OneJava(LoadScopeScheduling):  # type: ignore[misc]
    """Shares tests out among processes: a file at a time, for its fixtures; Spark's all to one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in ONE_BY_ONE:
            return nodeid
        return "spark" if file.startswith("tests/spark/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneJava:
    """For `pytest -n`."""
    config.option.loadscopereorder = (
        False  # In the order of collection, not by the number of tests.
    )
    return OneJava(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a marker expression, nobody has asked for other languages or for long runs."""
    items.sort(key=_rank)
    if config.option.markexpr:
        return
    aside = [
        item
        for item in items
        if item.get_closest_marker("clients") or item.get_closest_marker("slow")
    ]
    if aside:
        config.hook.pytest_deselected(items=aside)
        items[:] = [item for item in items if item not in aside]


def _rank(item: pytest.Item) -> int:
    return next((at for at, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG))


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper for everybody: who uses it stays below a chroot of their own."""
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), sync=False) as server:
        yield server
