"""Power loss, kills and faults on the simulated disk."""

import errno
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.sim.disk import SECTOR_BYTES
from barnabas.sim.faults import Chances, PowerLostError
from barnabas.sim.files import SimFile, SimFiles

SEEDS = range(60)

Step = tuple[str, int, int]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 12_000), st.integers(1, 6_000)),
        st.tuples(st.just("append"), st.just(0), st.integers(1, 3_000)),
        st.tuples(st.just("truncate"), st.integers(0, 15_000), st.just(0)),
        st.tuples(st.just("sync"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


class Model:
    """For each byte, every value it may have after power loss: what was there since the sync."""

    def __init__(self, file: SimFile) -> None:
        self.file = file
        self.values: list[set[int]] = []
        self.lengths = [0]
        self.written = 0

    def do(self, step: Step) -> None:
        kind, position, length = step
        if kind == "sync":
            self.file.sync()
            now = self.file.pread(self.file.size(), 0)
            self.values = [{byte} for byte in now]
            self.lengths = [len(now)]
            return
        if kind == "truncate":
            self.file.truncate(position)
        else:
            self.written = self.written % 255 + 1
            at = self.file.size() if kind == "append" else position
            self.file.pwrite(bytes([self.written]) * length, at)
        self._remember()

    def _remember(self) -> None:
        now = self.file.pread(self.file.size(), 0)
        self.values += [{0} for _ in range(len(now) - len(self.values))]
        for possible, byte in zip(self.values, now, strict=False):
            possible.add(byte)
        if min(self.lengths) < len(self.values):  # cut and grown again: zeros in between
            for possible in self.values[min(*self.lengths, len(now)) :]:
                possible.add(0)
        self.lengths.append(len(now))

    def allows(self, survivor: bytes) -> None:
        assert min(self.lengths) <= len(survivor) <= max(self.lengths)
        for position, byte in enumerate(survivor):
            assert byte in self.values[position], position


def _durable_file(files: SimFiles) -> SimFile:
    file = files.open("/a", create=True)
    files.sync_dir("/")
    return file


@given(seed=st.integers(0, 1_000_000), plan=steps)
@settings(max_examples=80, deadline=None)
def test_power_loss_leaves_only_what_the_model_allows(seed: int, plan: list[Step]) -> None:
    files = SimFiles(seed)
    model = Model(_durable_file(files))
    for step in plan:
        model.do(step)
    model.allows(files.crash().read("/a"))


@given(seed=st.integers(0, 1_000_000), plan=steps)
@settings(max_examples=40, deadline=None)
def test_a_kill_loses_nothing(seed: int, plan: list[Step]) -> None:
    files = SimFiles(seed)
    file = files.open("/a", create=True)
    model = Model(file)
    for step in plan:
        model.do(step)
    before = file.pread(1 << 20, 0)
    assert files.kill().read("/a") == before


@given(seed=st.integers(0, 1_000_000), plan=steps)
@settings(max_examples=40, deadline=None)
def test_what_was_synced_always_survives(seed: int, plan: list[Step]) -> None:
    files = SimFiles(seed)
    model = Model(_durable_file(files))
    for step in plan:
        model.do(step)
    model.do(("sync", 0, 0))
    before = files.read("/a")
    # Appending afterwards can not hurt what was synced.
    model.do(("append", 0, 5_000))
    assert files.crash().read("/a")[: len(before)] == before


@given(seed=st.integers(0, 1_000_000), plan=steps)
@settings(max_examples=25, deadline=None)
def test_after_a_crash_all_that_is_left_is_durable(seed: int, plan: list[Step]) -> None:
    files = SimFiles(seed)
    model = Model(_durable_file(files))
    for step in plan:
        model.do(step)
    once = files.crash()
    left = once.read("/a")
    assert once.crash().read("/a") == left


def _outcomes(prepare: Callable[[SimFiles], None], look: Callable[[SimFiles], str]) -> set[str]:
    outcomes = set()
    for seed in SEEDS:
        files = SimFiles(seed)
        prepare(files)
        outcomes.add(look(files.crash()))
    return outcomes


def _kind_of_tail(files: SimFiles) -> str:
    data = files.read("/a")
    assert data[:1000] == b"s" * 1000
    tail = data[1000:]
    if not tail:
        return "lost"
    if tail == b"n" * 9000:
        return "kept"
    if tail == bytes(9000):
        return "zeroed"
    if b"\0" not in tail:
        return "cut"
    return "torn"


def test_an_unsynced_tail_meets_every_fate() -> None:
    def prepare(files: SimFiles) -> None:
        file = _durable_file(files)
        file.pwrite(b"s" * 1000, 0)
        file.sync()
        file.pwrite(b"n" * 9000, 1000)

    assert _outcomes(prepare, _kind_of_tail) == {"lost", "kept", "cut", "torn", "zeroed"}


def test_an_overwritten_sector_is_old_or_new() -> None:
    mixed = 0
    for seed in SEEDS:
        files = SimFiles(seed)
        file = _durable_file(files)
        file.pwrite(b"o" * 8192, 0)
        file.sync()
        file.pwrite(b"n" * 8192, 0)
        data = files.crash().read("/a")
        sectors = {data[at : at + SECTOR_BYTES] for at in range(0, 8192, SECTOR_BYTES)}
        assert sectors <= {b"o" * SECTOR_BYTES, b"n" * SECTOR_BYTES}
        mixed += len(sectors) == 2
    assert 0 < mixed < len(SEEDS)


def test_an_unsynced_truncation_may_be_undone() -> None:
    def prepare(files: SimFiles) -> None:
        file = _durable_file(files)
        file.pwrite(b"s" * 1000, 0)
        file.sync()
        file.truncate(10)

    assert _outcomes(prepare, lambda files: str(files.size_of("/a"))) == {"10", "1000"}


def _names(files: SimFiles) -> str:
    return ",".join(files.list("/"))


class TestNames:
    def test_an_unsynced_name_may_be_lost_with_its_synced_bytes(self) -> None:
        def prepare(files: SimFiles) -> None:
            file = files.open("/a", create=True)
            file.pwrite(b"x", 0)
            file.sync()

        assert _outcomes(prepare, _names) == {"", "a"}

    def test_a_synced_name_survives(self) -> None:
        def prepare(files: SimFiles) -> None:
            files.make_dirs("/d/e")
            files.open("/d/e/f", create=True)
            for folder in ("/", "/d", "/d/e"):
                files.sync_dir(folder)

        assert _outcomes(prepare, lambda files: ",".join(files.list("/d/e"))) == {"f"}

    def test_an_unsynced_folder_takes_its_content_along(self) -> None:
        def prepare(files: SimFiles) -> None:
            files.make_dirs("/d")
            files.open("/d/f", create=True)
            files.sync_dir("/d")

        def look(files: SimFiles) -> str:
            return ",".join(files.list("/d")) if files.exists("/d") else "none"

        assert _outcomes(prepare, look) == {"none", "f"}

    def test_an_unsynced_removal_may_be_undone(self) -> None:
        def prepare(files: SimFiles) -> None:
            files.replace("/a", b"x")
            files.remove("/a")

        assert _outcomes(prepare, _names) == {"", "a"}

    def test_a_rename_is_atomic_and_may_be_undone(self) -> None:
        def prepare(files: SimFiles) -> None:
            files.replace("/a", b"new")
            files.replace("/b", b"old")
            files.rename("/a", "/b")

        def look(files: SimFiles) -> str:
            return f"{_names(files)}={files.read('/b').decode()}"

        assert _outcomes(prepare, look) == {"a,b=old", "b=new"}

    def test_a_rename_between_folders_is_never_in_both_or_none(self) -> None:
        def prepare(files: SimFiles) -> None:
            for folder in ("/one", "/two"):
                files.make_dirs(folder)
            files.sync_dir("/")
            files.replace("/one/a", b"x")
            files.rename("/one/a", "/two/a")

        def look(files: SimFiles) -> str:
            return f"{files.list('/one')}{files.list('/two')}"

        assert _outcomes(prepare, look) == {"['a'][]", "[]['a']"}

    def test_changes_of_one_name_happen_in_order(self) -> None:
        def prepare(files: SimFiles) -> None:
            for number in range(3):
                file = files.open("/t", create=True)
                file.pwrite(b"%d" % number, 0)
                file.sync()
                files.rename("/t", "/a")

        def look(files: SimFiles) -> str:
            return files.read("/a").decode() if files.exists("/a") else "none"

        assert _outcomes(prepare, look) == {"none", "0", "1", "2"}

    def test_independent_names_survive_independently(self) -> None:
        def prepare(files: SimFiles) -> None:
            files.open("/a", create=True)
            files.open("/b", create=True)

        assert _outcomes(prepare, _names) == {"", "a", "b", "a,b"}

    def test_a_tree_may_be_removed_in_part(self) -> None:
        def prepare(files: SimFiles) -> None:
            files.make_dirs("/d")
            files.sync_dir("/")
            for name in "xyz":
                files.replace(f"/d/{name}", b"")
            files.remove_tree("/d")

        def look(files: SimFiles) -> str:
            return "".join(files.list("/d")) if files.exists("/d") else "none"

        assert len(_outcomes(prepare, look)) > 4

    @given(seed=st.integers(0, 1_000_000))
    @settings(max_examples=25, deadline=None)
    def test_replace_is_all_or_nothing_at_every_point(self, seed: int) -> None:
        """Whenever the power goes during `replace`, the old or the new file is there, whole."""
        for changes in range(1, 9):
            files = SimFiles(seed)
            files.replace("/a", b"old" * 1000)
            files.lose_power_after(changes)
            try:
                files.replace("/a", b"new" * 2000)
                returned = True
            except PowerLostError:
                returned = False
            found = files.crash().read("/a")
            assert found == b"new" * 2000 or (found == b"old" * 1000 and not returned)


class TestDeadHandles:
    @pytest.mark.parametrize("end", [SimFiles.crash, SimFiles.kill])
    def test_nothing_old_works_any_more(self, end: Callable[[SimFiles], SimFiles]) -> None:
        files = SimFiles(1)
        file = _durable_file(files)
        files.lock("/lock")
        after = end(files)
        calls: list[Callable[[], object]] = [
            lambda: file.pwrite(b"x", 0),
            lambda: file.pread(1, 0),
            file.sync,
            file.size,
            lambda: files.list("/"),
            lambda: files.open("/b", create=True),
            lambda: files.replace("/b", b""),
        ]
        for call in calls:
            with pytest.raises(PowerLostError):
                call()
        after.lock("/lock").release()
        assert after.read("/a") == b""

    def test_power_is_lost_at_the_change_that_was_named(self) -> None:
        files = SimFiles(4)
        file = _durable_file(files)
        files.lose_power_after(3)
        file.pwrite(b"a", 0)
        file.sync()
        with pytest.raises(PowerLostError):
            file.pwrite(b"b" * 100, 1)
        with pytest.raises(PowerLostError):
            file.size()
        assert files.crash().read("/a")[:1] == b"a"


class TestFaults:
    def test_a_failed_sync_leaves_pages_that_no_later_sync_writes(self) -> None:
        fates = set()
        for seed in SEEDS:
            files = SimFiles(seed)
            file = _durable_file(files)
            file.pwrite(b"o" * 512, 0)
            file.sync()
            file.pwrite(b"n" * 512, 0)
            files.faults.fail_next("sync", "a")
            with pytest.raises(OSError, match="Input/output"):
                file.sync()
            file.sync()
            assert file.pread(512, 0) == b"n" * 512
            fates.add(files.crash().read("/a")[:1])
        assert fates == {b"o", b"n"}

    def test_pages_written_again_after_a_failed_sync_are_synced(self) -> None:
        for seed in SEEDS:
            files = SimFiles(seed)
            file = _durable_file(files)
            file.pwrite(b"n" * 9000, 0)
            files.faults.fail_next("sync")
            with pytest.raises(OSError, match="Input/output"):
                file.sync()
            file.pwrite(b"n" * 9000, 0)
            file.sync()
            assert files.crash().read("/a") == b"n" * 9000

    def test_a_kill_does_not_mend_what_a_failed_sync_left(self) -> None:
        fates = set()
        for seed in SEEDS:
            files = SimFiles(seed)
            file = _durable_file(files)
            file.pwrite(b"n" * 512, 0)
            files.faults.fail_next("sync")
            with pytest.raises(OSError, match="Input/output"):
                file.sync()
            files = files.kill()
            file = files.open("/a")
            assert file.pread(512, 0) == b"n" * 512
            file.sync()
            fates.add(files.crash().read("/a"))
        assert fates == {b"n" * 512, bytes(512)}

    def test_what_was_cut_off_does_not_come_back_after_a_sync(self) -> None:
        for seed in SEEDS:
            files = SimFiles(seed)
            file = _durable_file(files)
            file.pwrite(b"o" * 9000, 0)
            file.sync()
            file.truncate(0)
            file.truncate(9000)
            files.faults.fail_next("sync")
            with pytest.raises(OSError, match="Input/output"):
                file.sync()
            file.sync()
            assert files.crash().read("/a") == bytes(9000)

    def test_a_failed_sync_dir_leaves_names_unsynced(self) -> None:
        def prepare(files: SimFiles) -> None:
            files.open("/a", create=True)
            files.faults.fail_next("sync_dir")
            with pytest.raises(OSError, match="Input/output"):
                files.sync_dir("/")

        assert _outcomes(prepare, _names) == {"", "a"}

    def test_a_full_disk_takes_part_of_a_write(self) -> None:
        files = SimFiles(1, disk_bytes_max=1000)
        file = files.open("/a", create=True)
        file.pwrite(b"x" * 900, 0)
        assert files.free_bytes("/") == 100
        with pytest.raises(OSError, match="No space") as caught:
            file.pwrite(b"y" * 200, 900)
        assert caught.value.errno == errno.ENOSPC
        assert file.size() == 1000
        file.pwrite(b"z" * 1000, 0)
        files.disk_bytes_max = 2000
        file.pwrite(b"y" * 200, 900)
        assert file.size() == 1100
        files.remove("/a")
        assert files.free_bytes("/") == 2000

    def test_a_planned_full_disk_strikes_once(self) -> None:
        files = SimFiles(1)
        file = files.open("/a", create=True)
        files.faults.fail_next("write", "b")
        file.pwrite(b"x" * 100, 0)
        files.faults.fail_next("write", "a")
        with pytest.raises(OSError, match="No space"):
            file.pwrite(b"y" * 100, 0)
        assert file.pread(100, 0).endswith(b"x")
        file.pwrite(b"y" * 100, 0)
        assert files.faults.injected == 1

    def test_a_failed_replace_leaves_the_old_file(self) -> None:
        for kind in ("write", "sync"):
            files = SimFiles(1)
            files.replace("/a", b"old")
            files.faults.fail_next(kind)
            with pytest.raises(OSError, match=r"No space|Input/output"):
                files.replace("/a", b"new")
            assert files.read("/a") == b"old"
            assert list(files.list("/")) == ["a"]

    def test_reads_fail_by_chance(self) -> None:
        files = SimFiles(1, chances=Chances(read=0.2))
        files.replace("/a", b"abc")
        file = files.open("/a")
        failed = 0
        for _ in range(200):
            try:
                assert file.pread(3, 0) == b"abc"
            except OSError:
                failed += 1
        assert 0 < failed < 100
        assert files.faults.injected == failed

    def test_cold_reads_are_none(self) -> None:
        files = SimFiles(1, chances=Chances(cold=0.5))
        files.replace("/a", b"abc")
        file = files.open("/a")
        assert {file.pread_cached(3, 0) for _ in range(50)} == {None, b"abc"}

    def test_a_flipped_bit_is_one_bit_and_stays(self) -> None:
        files = SimFiles(1)
        files.replace("/a", bytes(1000))
        position = files.flip_bit("/a")
        data = files.crash().read("/a")
        assert data[position].bit_count() == 1
        assert sum(data) == data[position]


@given(seed=st.integers(0, 1_000_000), plan=steps)
@settings(max_examples=30, deadline=None)
def test_the_same_seed_gives_the_same_disk(seed: int, plan: list[Step]) -> None:
    def once() -> tuple[str, bytes, int]:
        files = SimFiles(seed, chances=Chances(read=0.05, write=0.05, sync=0.05, sync_dir=0.05))
        files.open("/a", create=True)
        written = 0
        for kind, position, length in plan:
            file = files.open("/a")
            written = written % 255 + 1
            try:
                match kind:
                    case "sync":
                        file.sync()
                        files.sync_dir("/")
                    case "truncate":
                        file.truncate(position)
                    case _:
                        file.pwrite(bytes([written]) * length, position)
            except OSError:
                written += 1
        injected = files.faults.injected
        files.faults.chances.read = 0.0
        files = files.crash()
        found = files.read("/a") if files.exists("/a") else b"none"
        return files.trace.digest(), found, injected

    assert once() == once()
