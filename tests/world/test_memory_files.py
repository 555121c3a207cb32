"""Files in memory under threads, which the contract suite can not show."""

import threading

from barnabas.world.memory import MemoryFiles


def test_a_reader_on_another_thread_does_not_stop_the_writer() -> None:
    files = MemoryFiles()
    writer = files.open("/a", create=True)
    reader = files.open_read_only("/a")
    wrong: list[bytes] = []
    finished = threading.Event()

    def read() -> None:
        while not finished.is_set():
            data = reader.pread(1 << 20, 0)
            if data.strip(b"x"):
                wrong.append(data)

    thread = threading.Thread(target=read)
    thread.start()
    for at in range(3000):
        writer.pwrite(b"x" * 100, at * 100)
    finished.set()
    thread.join()
    assert not wrong
    assert writer.size() == 300_000


def test_names_are_the_same_with_and_without_a_leading_slash() -> None:
    files = MemoryFiles()
    files.replace("a", b"abc")
    assert files.read("/a") == files.read("./a") == files.read("//a") == b"abc"


def test_free_bytes_shrink_as_files_grow() -> None:
    files = MemoryFiles()
    before = files.free_bytes("/")
    files.replace("/a", bytes(1000))
    assert files.free_bytes("/") == before - 1000
