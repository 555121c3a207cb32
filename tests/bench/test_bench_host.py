"""What the benchmarks see of the machine."""

import os
import subprocess
import sys
import time

from barnabas.bench import host


def test_cpu_time_of_a_process_and_its_children() -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass\n"
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {busy + 'input()'!r}],"
        " stdin=subprocess.PIPE)\n"
        "print('up', flush=True)\ninput()\nchild.kill(); child.wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        deadline = time.monotonic() + 30
        while host.cpu_seconds(parent.pid) < 0.2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert host.cpu_seconds(parent.pid) >= 0.2
        assert len(host.tree(parent.pid)) == 2
        parent.communicate(b"\n", timeout=30)


def test_memory_of_this_process() -> None:
    before = host.memory(os.getpid())
    held = bytearray(os.urandom(1 << 20) * 32)
    after = host.memory(os.getpid())
    assert len(held) == 32 << 20
    assert after.rss_kib - before.rss_kib > 24 << 10
    assert 0 < after.pss_kib <= after.rss_kib


def test_spinners_end_with_the_block() -> None:
    others = set(host.tree(os.getpid()))  # Other tests of this process may have children.
    with host.awake():
        spinners = set(host.tree(os.getpid())) - others
        assert len(spinners) >= (os.cpu_count() or 1)
    assert not spinners & set(host.tree(os.getpid()))
