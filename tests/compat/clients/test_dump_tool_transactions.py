"""Kafka's own dump tool reads transactions, compacted segments and the coordinators' topics."""

import json
import re
import shutil
import time
from pathlib import Path
from typing import Final

import pytest
from tests.compat import real_kafka
from tests.compat.batches import Rec, make_batch
from tests.compat.clients.dump_tool import Dumped, check_indexes, dump
from tests.compat.clients.probe import Probe, produce_body
from tests.compat.clients.txn_probe import TxnProbe, end
from tests.compat.txn_client_confluent import ConfluentTxn
from tests.compat.txn_port import WAIT_S
from tests.compat.txn_scenarios import TxnStage

from barnabas.testing import Broker

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not real_kafka.available(), reason="needs Java, and Maven once"),
]
SEGMENT_BYTES: Final = str(1 << 20)
CONFIG: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
TRANSACTIONS: Final = 9
IN_EACH: Final = 20
VALUE: Final = "v" * 20_000
KEYS: Final = 7
ONGOING: Final = 1
"""In the log of transactions."""
ROUNDS: Final = 42


def _transact(bootstrap: str) -> None:
    """Every third transaction commits, with offsets; the last one stays open."""
    probe = Probe(bootstrap)
    probe.make_topic("transacted", 1, segment_bytes=SEGMENT_BYTES)
    probe.reconnect()
    client = ConfluentTxn(bootstrap)
    client.open("dumped")
    for n in range(TRANSACTIONS + 1):
        client.begin()
        client.send("transacted", 0, [f"{n} {VALUE}"] * IN_EACH)
        client.offsets("dumped-group", "transacted", {0: n})
        if n < TRANSACTIONS:
            (client.abort if n % 3 else client.commit)()
    client.close()


def _round(n: int) -> list[Rec]:
    """A value for every key; the first key is deleted in the end."""
    now = round(time.time() * 1000)
    gone = b"k0" if n == ROUNDS - 2 else None
    return [
        Rec(key=key, value=None if key == gone else b"%d " % n + VALUE.encode(), timestamp=now)
        for key in (b"k%d" % each for each in range(KEYS))
    ]


def _compacted_topic(probe: Probe, name: str) -> None:
    probe.make_topic(
        name, 1, segment_bytes=SEGMENT_BYTES, cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
    )  # fmt: skip


def _overwrite(bootstrap: str) -> None:
    """The same keys again and again."""
    probe = Probe(bootstrap)
    _compacted_topic(probe, "compacted")
    for n in range(ROUNDS):
        answer = probe.quietly("produce", 12, produce_body("compacted", make_batch(_round(n))))
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == "NONE"
    probe.reconnect()


def _overwrite_in_transactions(bootstrap: str) -> None:
    """The same keys again and again; every other transaction is aborted, the last one too."""
    probe = TxnProbe(bootstrap)
    _compacted_topic(probe, "settled")
    who = probe.producer("settling")
    for n in range(ROUNDS):
        body = produce_body("settled", who.batch(0, _round(n)), transactional_id=who.name)
        answer = probe.must("produce", 12, body)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == "NONE"
        answer = probe.must("end_txn", 5, end(who, commit=n % 2 == 0))
        who = who.at(answer["producer_epoch"])
        probe.settle(who.name)
    probe.hang_up()


def _await_cleaner(data: Path, *topics: str) -> None:
    """Until it has been at each of the topics."""
    deadline = time.monotonic() + WAIT_S
    checkpoint = data / "cleaner-offset-checkpoint"
    for topic in topics:
        done = re.compile(rf"^{topic} 0 [1-9]", re.MULTILINE)
        while not checkpoint.exists() or not done.search(checkpoint.read_text()):
            assert time.monotonic() < deadline, "the cleaner does not come"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that Barnabas wrote and closed."""
    directory = tmp_path_factory.mktemp("ours")
    with Broker(memory=False, data=directory, config=CONFIG) as broker:
        _transact(broker.bootstrap_servers)
        _overwrite(broker.bootstrap_servers)
        _overwrite_in_transactions(broker.bootstrap_servers)
        _await_cleaner(directory, "compacted", "settled")
    return directory


def _of(files: list[Dumped], suffix: str) -> list[Dumped]:
    return [file for file in files if file.path.suffix == suffix]


def test_transactions_and_their_ends(ours: Path) -> None:
    files = dump(ours / "transacted-0")
    logs = _of(files, ".log")
    assert len(logs) >= 3
    entries = [entry for log in logs for entry in log.entries if "endTxnMarker" in entry]
    ends = [re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", entry) for entry in entries]
    expected = ["ABORT" if n % 3 else "COMMIT" for n in range(TRANSACTIONS)]
    assert ends == [[(end, "0")] for end in expected]
    records = [record for log in logs for record in log.records]
    assert len(records) == (TRANSACTIONS + 1) * IN_EACH
    in_each = IN_EACH + 1
    assert [record.offset for record in records] == [
        n * in_each + k for n in range(TRANSACTIONS + 1) for k in range(IN_EACH)
    ]


def test_what_was_aborted(ours: Path) -> None:
    entries = [
        entry for file in _of(dump(ours / "transacted-0"), ".txnindex") for entry in file.entries
    ]
    in_each = IN_EACH + 1
    found = [re.findall(r"(\w+): (\d+)", entry) for entry in entries]
    spans = [(int(row["firstOffset"]), int(row["lastOffset"])) for row in map(dict, found)]
    aborted = [n for n in range(TRANSACTIONS) if n % 3]
    assert spans == [(n * in_each, n * in_each + IN_EACH) for n in aborted]


def test_producers_with_an_open_transaction(ours: Path) -> None:
    snapshots = _of(dump(ours / "transacted-0"), ".snapshot")
    last = snapshots[-1].entries[-1]
    first_open = TRANSACTIONS * (IN_EACH + 1)
    assert f"currentTxnFirstOffset: OptionalLong[{first_open}]" in last
    assert "coordinatorEpoch: 0" in last


def test_indexes_are_sane(ours: Path) -> None:
    for topic in ("transacted", "compacted", "settled"):
        said = check_indexes(ours / f"{topic}-0").replace("is empty", "passed sanity check")
        assert said.count("passed sanity check") == len(list((ours / f"{topic}-0").glob("*.index")))


def _latest(directory: Path) -> dict[str | None, str | None]:
    """The last value of every key, by the tool's words; offsets rise, and something is gone."""
    logs = _of(dump(directory, compacted=True), ".log")
    records = [record for log in logs for record in log.records]
    assert KEYS <= len(records) < KEYS * ROUNDS // 2
    assert [record.offset for record in records] == sorted({record.offset for record in records})
    return {record.key: (record.payload or "").split(" ")[0] for record in records}


def test_compacted_segments(ours: Path) -> None:
    expected = {f"k{key}": str(ROUNDS - 1) for key in range(KEYS)}
    assert _latest(ours / "compacted-0") == expected


def test_compacted_transactions(ours: Path) -> None:
    logs = _of(dump(ours / "settled-0", compacted=True), ".log")
    assert any("endTxnMarker: COMMIT" in entry for log in logs for entry in log.entries)
    # In the part that is not compacted yet, what was aborted is still there.
    closed = [record for log in logs[:-1] for record in log.records]
    assert {int((record.payload or "0").split(" ")[0]) % 2 for record in closed} == {0}
    assert set(_latest(ours / "settled-0")) == {f"k{key}" for key in range(KEYS)}


def test_the_log_of_transactions(ours: Path) -> None:
    files = dump(ours / "__transaction_state-0", "--transaction-log-decoder", compacted=True)
    records = [record for log in _of(files, ".log") for record in log.records]
    latest = {
        json.loads(record.key or "")["data"]["transactionalId"]: record.payload
        for record in records
    }
    assert set(latest) == {"dumped", "settling"}
    last = json.loads(latest["dumped"] or "")["data"]
    assert last["transactionStatus"] == ONGOING
    assert {row["topic"] for row in last["transactionPartitions"]} == {
        "transacted",
        "__consumer_offsets",
    }


def test_the_offsets_of_transactions(ours: Path) -> None:
    files = dump(ours / "__consumer_offsets-0", "--offsets-decoder", compacted=True)
    logs = _of(files, ".log")
    ends = [entry for log in logs for entry in log.entries if "endTxnMarker" in entry]
    assert len(ends) == TRANSACTIONS
    payloads = [record.payload or "" for log in logs for record in log.records]
    offsets = [int(found[1]) for one in payloads if (found := re.search(r'"offset":(\d+)', one))]
    assert offsets == list(range(TRANSACTIONS + 1))


def test_readers_see_the_same(ours: Path, tmp_path: Path) -> None:
    again = shutil.copytree(ours, tmp_path / "again")
    with Broker(memory=False, data=again, config=CONFIG) as broker:
        stage = TxnStage(ConfluentTxn, broker.bootstrap_servers)
        with stage.probe() as probe:
            probe.producer("dumped")
        stage.plainly("transacted", 0, ["end"])
        values = stage.read("transacted")
    committed = [n for n in range(TRANSACTIONS) if n % 3 == 0]
    assert [value.split()[0] for value in values] == [
        str(n) for n in committed for _ in range(IN_EACH)
    ]
