"""The rig's own parts: its plan, its memory, its report, and how it compares replicas."""

import asyncio
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from tests.chaos import talk
from tests.chaos.cluster.alarms import LogWatch, alarms, parted_servers
from tests.chaos.cluster.crowd import PLACES
from tests.chaos.cluster.ending import not_compared, short_of_the_end
from tests.chaos.cluster.faults import Kind, faults
from tests.chaos.cluster.part import resumed_after
from tests.chaos.cluster.planted import found_by
from tests.chaos.cluster.proxy import Proxy
from tests.chaos.cluster.replicas import differences, set_aside
from tests.chaos.cluster.report import ASKED, is_passed, lacking, report
from tests.chaos.cluster.results import Part, Results, Struck, load, percentile, save
from tests.chaos.cluster.run import is_hopeless, seconds_of_a_part
from tests.chaos.recorder import Recorder

from barnabas.log.names import DAMAGED_DIRECTORY
from barnabas.node.local_cluster import free_ports
from barnabas.wire.records.record import encode_batch

# --- the plan ----------------------------------------------------------------------------------


def test_a_seed_always_breaks_the_same() -> None:
    assert list(islice(faults(7), 100)) == list(islice(faults(7), 100))
    assert list(islice(faults(7), 100)) != list(islice(faults(8), 100))


def test_a_run_that_goes_on_breaks_what_the_whole_one_would_have() -> None:
    whole = list(islice(faults(3), 120))
    assert [each.number for each in whole] == list(range(120))
    for first in (1, 39, 40, 41, 95):
        assert list(islice(faults(3, first), 120 - first)) == whole[first:]


def test_an_hour_of_faults_holds_what_is_asked_for() -> None:
    """With fifteen seconds for each."""
    counts = Counter(each.kind for each in islice(faults(1), 240))
    assert all(counts[kind] > 0 for kind in Kind)
    for kind in (Kind.KILL, Kind.PAUSE, Kind.CUT, Kind.QUORUM):
        assert counts[kind] >= ASKED[kind], kind


# --- the memory --------------------------------------------------------------------------------


def a_part(number: int, *, resumed_s: float = 1.0, **more: object) -> Part:
    struck = [
        Struck(number * 10 + each, 5.0, "pause", "leader", "broker 1", 4.0, {"plain-0": resumed_s})
        for each in range(2)
    ]
    tally = {"values acknowledged": 600, "transactions": 7, "transactions committed": 6}
    return Part(number, 1, 60.0, struck, tally, **more)  # type: ignore[arg-type]


def test_what_was_done_is_there_when_a_run_goes_on(tmp_path: Path) -> None:
    results = Results(1, "somewhere", [a_part(1), a_part(2, anomalies={"lost-write": 3})])
    save(tmp_path / "run.json", results)
    again = load(tmp_path / "run.json", 1)
    assert again == results
    assert again.next_fault == 22
    assert (again.seconds, again.acknowledged) == (120.0, 1200)
    assert again.tally()["transactions"] == 14
    assert not again.is_clean


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    save(tmp_path / "run.json", Results(1, "", [a_part(1)]))
    assert load(tmp_path / "run.json", 2).parts == []
    assert load(tmp_path / "none.json", 1).next_fault == 0


@pytest.mark.parametrize(("share", "is_"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share: float, is_: float) -> None:
    assert percentile(list(range(1, 101)), share) == is_
    assert percentile([], share) == 0.0


# --- the report --------------------------------------------------------------------------------


def test_a_report_says_what_was_found_and_what_was_held() -> None:
    text = report(Results(1, "on hosts", [a_part(1)]))
    assert "Found: nothing." in text
    assert "= 11 s: held" in text
    assert "pause: 2 of 40" in text
    assert "clean, replicas alike" in text


def test_a_report_hides_nothing() -> None:
    bad = a_part(1, resumed_s=12.0, problems=["lost-write: 'a' is gone"], evidence="/somewhere")
    bad.anomalies = {"lost-write": 1}
    text = report(Results(1, "on hosts", [bad, a_part(2)]))
    assert "PROBLEMS" in text
    assert "NOT held" in text
    assert "1 lost-write" in text
    assert "lost-write: 'a' is gone" in text
    assert "kept in /somewhere" in text


def test_a_report_says_what_was_tested_and_what_could_not_be_done() -> None:
    whole = a_part(1, commit="abc1234", left_out={"full disk": 3})
    changed = a_part(2, commit="abc1234+", left_out={"full disk": 2})
    text = report(Results(1, "on hosts", [whole]))
    assert "abc1234    clean" in text
    assert "in no commit" not in text
    assert "NOT finished" not in text
    text = report(Results(1, "on hosts", [whole, changed]), is_finished=False)
    (line,) = [line for line in text.splitlines() if "impossible on this machine" in line]
    assert line.split() == ["full", "disk,", "impossible", "on", "this", "machine", "5"]
    assert "abc1234+   clean" in text
    assert "in no commit" in text
    assert "NOT finished" in text


def test_a_run_is_of_a_commit_when_all_of_its_parts_are() -> None:
    one, other = a_part(1, commit="abc1234"), a_part(2, commit="def5678")
    assert Results(1, "", [one]).is_of("abc1234")
    assert not Results(1, "", [one, other]).is_of("abc1234")
    assert not Results(1, "", [a_part(1)]).is_of("")
    assert not Results(1, "", [a_part(1, commit="abc1234+")]).is_of("abc1234+")


def test_a_run_is_clean_only_with_parts_that_came_to_their_end_in_time() -> None:
    assert Results(1, "", [a_part(1)]).is_clean
    assert not Results(1).is_clean
    assert "nothing was run" in report(Results(1))
    assert not Results(1, "", [a_part(1), a_part(2, broke_off=True)]).is_clean
    assert not Results(1, "", [a_part(1), a_part(2, resumed_s=11.5)]).is_clean


def test_the_slowest_writer_of_each_heal_counts_and_hijacks_do_not() -> None:
    quick = {f"writer-{each}": 0.1 for each in range(200)}
    heal = Struck(0, 1.0, "pause", "leader", "broker 1", 1.0, quick | {"late": 30.0})
    hijack = Struck(1, 1.0, Kind.HIJACK, "id", "id", 1.0, {"late": 40.0})
    results = Results(1, "", [Part(1, 1, 60.0, [heal, hijack])])
    assert results.slowest() == [30.0]
    assert not results.is_in_time
    assert percentile(results.resumed(), 0.9) == 0.1


def test_a_whole_run_that_lacks_something_does_not_pass() -> None:
    results = Results(1, "", [a_part(1)])
    assert is_passed(results, 5.0)
    assert is_passed(results, None)
    assert not is_passed(results, 60.0)
    nearly = Results(1, "", [Part(1, 1, 3599.0)])
    assert "minutes: 59.9 of 60" in lacking(nearly)


def test_a_run_ends_when_two_parts_in_a_row_broke_off() -> None:
    good, bad = a_part(1), a_part(2, broke_off=True)
    assert not is_hopeless(Results(1, "", [bad]))
    assert not is_hopeless(Results(1, "", [bad, good, bad]))
    assert is_hopeless(Results(1, "", [good, bad, bad]))
    assert seconds_of_a_part(600.0, 620.0) == 620.0
    assert seconds_of_a_part(600.0, 3600.0) == 600.0


# --- what counts -------------------------------------------------------------------------------


def test_only_what_began_after_the_heal_says_that_writers_go_on() -> None:
    assert resumed_after(10.0, (9.9, 10.5)) is None
    assert resumed_after(10.0, (10.1, 10.5)) == pytest.approx(0.5)


def test_a_mistake_is_found_only_by_a_verdict_on_what_was_stored() -> None:
    assert found_by(a_part(1, problems=["a broker can not start"])) is None
    assert found_by(a_part(1, anomalies={"lost-write": 1}, broke_off=True)) is None
    assert found_by(a_part(1, anomalies={"lost-write": 1})) == "the histories"
    assert found_by(a_part(1, problems=["replicas differ: t-0"])) == "the comparison of replicas"


LOST = "once-0: offsets 5 to 9 were committed here, and the leader does not have them"


def test_whatever_brokers_log_as_an_error_is_heard_once(tmp_path: Path) -> None:
    text = (
        "10:00:00 INFO    fine\n10:00:01 CRITICAL the cluster is lost\n10:00:01 WARNING hm\n"
        "Traceback (most recent call last):\n  File x\n    y()\nKeyError: 1\n"
        f"10:00:02 ERROR   {LOST}\n10:00:03 INFO    an ERROR it is not\n"
    )
    paths = {number: tmp_path / str(number) for number in (1, 2)}
    paths[1].write_text(text)
    watch = LogWatch(paths)
    critical, traceback, lost = watch.look()
    assert critical == "broker 1 logged: 10:00:01 CRITICAL the cluster is lost"
    assert traceback == "broker 1 logged: a traceback: KeyError: 1"
    assert lost == f"broker 1 logged: 10:00:02 ERROR   {LOST}"
    assert watch.look() == []


def test_what_a_leader_without_followers_can_not_write_is_no_alarm() -> None:
    words = (
        "could not be written, and is loaded anew: 1 replica(s) are in sync, and "
        "min.insync.replicas asks for 2."
    )
    for each in (words, "was not committed, and is loaded anew: it leads no more"):
        assert list(alarms(f"10:00:00 ERROR   __consumer_offsets-1 {each}")) == []
    other = "10:00:00 ERROR   __consumer_offsets-1 could not be written, and is loaded anew: hm"
    assert list(alarms(other)) == [other]


def test_a_server_of_zookeeper_that_has_parted_from_the_others_is_named(tmp_path: Path) -> None:
    said = {
        1: "INFO  all is well",
        2: "INFO  one\nERROR DataTree First digest mismatch on txn: 7\n",
    }
    for number, text in said.items():
        (tmp_path / f"server-{number}").mkdir()
        (tmp_path / f"server-{number}" / "zookeeper.log").write_text(text)
    (found,) = parted_servers(tmp_path.glob("*/zookeeper.log"))
    assert "ZooKeeper's own fault, its server-2 has parted" in found
    assert found.endswith("First digest mismatch on txn: 7")


def test_a_full_disk_excuses_that_nothing_can_be_written_but_not_that_something_is_lost(
    tmp_path: Path,
) -> None:
    text = (
        "10:00:01 ERROR   once-1 refuses writes: [Errno 28] No space left on device\n"
        "Traceback (most recent call last):\n  x\nOSError: [Errno 28] No space left on device\n"
        f"10:00:02 ERROR   {LOST}\n"
    )
    paths = {number: tmp_path / str(number) for number in (1, 2)}
    for path in paths.values():
        path.write_text(text)
    heard = LogWatch(paths).look(without_room=[2])
    assert len([each for each in heard if each.startswith("broker 1")]) == 3
    assert [each for each in heard if each.startswith("broker 2")] == [
        f"broker 2 logged: 10:00:02 ERROR   {LOST}"
    ]


def test_what_was_acknowledged_of_a_burst_must_be_read_though_the_rest_failed(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path / "clients.jsonl")
    recorder.note("w", "info", "send", [["send", "t", 0, "a", 7, None], ["send", "t", 0, "b"]])
    recorder.note("w", "info", "txn", [["send", "t", 1, "c", 9, None]])
    recorder.close()
    assert recorder.highest == {("t", 0): 7}


def test_a_final_reader_must_have_come_to_the_end() -> None:
    assert list(short_of_the_end(("t", 0), 5, 5, 4)) == []
    assert len(list(short_of_the_end(("t", 0), 4, 5, 3))) == 1
    assert len(list(short_of_the_end(("t", 0), 5, 5, 5))) == 1


def test_a_comparison_of_replicas_leaves_nothing_out() -> None:
    internal = [("__consumer_offsets", 0), ("__transaction_state", 0)]
    ends = dict.fromkeys([*PLACES, *internal], 7)
    assert list(not_compared(ends, dict.fromkeys(PLACES, 7))) == []
    assert len(list(not_compared(ends, {PLACES[0]: 8}))) == 1
    del ends[PLACES[0]], ends[internal[0]]
    assert len(list(not_compared(ends, {}))) == 2


# --- replicas ----------------------------------------------------------------------------------


def lay_down(directory: Path, *batches: bytes) -> Path:
    """A replica's folder with one segment."""
    folder = directory / "t-0"
    folder.mkdir(parents=True)
    offset, data = 0, b""
    for batch in batches:
        stored = bytearray(batch)
        stored[:8] = offset.to_bytes(8, "big")
        offset += int.from_bytes(stored[23:27], "big") + 1
        data += bytes(stored)
    (folder / f"{0:020}.log").write_bytes(data)
    return directory


def keyed(key: str, value: str) -> bytes:
    return encode_batch([(1, key.encode(), value.encode(), [])])


def told(home: Path, one: list[bytes], other: list[bytes], end: int, *, compact: bool) -> list[str]:
    directories = {1: lay_down(home / "1", *one), 2: lay_down(home / "2", *other)}
    return list(differences(directories, {("t", 0): end}, {"t"} if compact else set()))


def test_replicas_that_are_alike(tmp_path: Path) -> None:
    batches = [talk.batch_of(b"a", b"b"), talk.batch_of(b"c")]
    longer = [*batches, talk.batch_of(b"not committed")]
    assert told(tmp_path, batches, longer, 3, compact=False) == []


def test_replicas_that_differ_in_a_byte_or_in_length(tmp_path: Path) -> None:
    first = talk.batch_of(b"a", b"b")
    (one,) = told(
        tmp_path / "x", [first, keyed("", "c")], [first, keyed("", "d")], 3, compact=False
    )
    assert "t-0" in one
    assert "broker 2" in one
    (shorter,) = told(tmp_path / "y", [first, keyed("", "c")], [first], 3, compact=False)
    assert "broker 2 has None" in shorter
    (both,) = told(tmp_path / "z", [first], [first], 3, compact=False)
    assert "end at 2, the high watermark is 3" in both


def test_a_replica_that_is_not_there(tmp_path: Path) -> None:
    lay_down(tmp_path / "1", talk.batch_of(b"a"))
    (tmp_path / "2").mkdir()
    directories = {1: tmp_path / "1", 2: tmp_path / "2"}
    (sentence,) = differences(directories, {("t", 0): 1}, set())
    assert "not there on [2]" in sentence


def test_a_replica_that_was_damaged_is_told_of_though_it_is_whole_again(tmp_path: Path) -> None:
    whole = tmp_path / "1" / "t-0"
    damaged = tmp_path / "2" / f"t-0.0a1b{DAMAGED_DIRECTORY}"
    for folder in (whole, damaged):
        folder.mkdir(parents=True)
    (sentence,) = set_aside({1: tmp_path / "1", 2: tmp_path / "2"})
    assert "broker 2" in sentence
    assert damaged.name in sentence


def test_compacted_replicas_agree_on_the_latest_value_of_each_key(tmp_path: Path) -> None:
    whole = [keyed("k", "1"), keyed("l", "2"), keyed("k", "3")]
    other = [keyed("k", "0"), keyed("l", "2"), keyed("k", "3")]
    assert told(tmp_path / "x", whole, other, 3, compact=True) == []
    wrong = [*whole[:2], keyed("k", "4")]
    (sentence,) = told(tmp_path / "y", whole, wrong, 3, compact=True)
    assert "1 keys differ" in sentence


# --- the proxy ---------------------------------------------------------------------------------


def test_a_proxy_holds_back_one_direction_until_it_is_healed() -> None:
    asyncio.run(_hold_back())


async def _hold_back() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(first := await reader.readexactly(4))
        writer.write(first)
        heard.extend(await reader.readexactly(4))
        writer.close()

    heard = bytearray()
    real, found = free_ports(2)
    async with await asyncio.start_server(echo, "127.0.0.1", real):
        proxy = Proxy()
        await proxy.obey({"listen": found, "host": "broker-1", "to": real})
        reader, writer = await asyncio.open_connection("127.0.0.1", found)
        await proxy.obey({"cut": ["broker-1", "clients"]})
        writer.write(b"ping")
        while heard != b"ping":
            await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(4), 0.1)
        await proxy.obey({"heal": True})
        assert await reader.readexactly(4) == b"ping"
        await proxy.obey({"cut": ["broker-2", "broker-1"]})
        writer.write(b"done")
        assert await reader.read() == b""
        assert heard == b"pingdone"
        writer.close()
