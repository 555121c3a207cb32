"""Jobs as processes: started again, stopped, and never left behind. No Spark is needed for that."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from barnabas.spark.driver import Job, run_job
from barnabas.spark.errors import SparkJobError
from barnabas.spark.job import NEEDS_CHANGE
from barnabas.spark.supervisor import Pauses
from barnabas.spark.watchdog import Watchdog

WAIT_S = 60.0


def job_file(folder: Path, text: str) -> str:
    file = folder / "job.py"
    file.write_text(textwrap.dedent(text))
    return str(file)


def run(job: Job, restarts: int | None = 0) -> tuple[int, list[str]]:
    told: list[str] = []
    code = run_job(job, restarts=restarts, pauses=Pauses(0.0, 0.0), tell=told.append)
    return code, told


def test_a_job_sees_its_arguments_its_neighbours_and_its_settings(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("NAME = 'Frieda'\n")
    file = job_file(
        tmp_path,
        """
        import os, sys
        from neighbour import NAME
        from barnabas.spark.submitted import submitted_settings
        assert __name__ == "__main__"
        given = submitted_settings(os.environ, "/nowhere")
        said = [NAME, sys.argv[1], given["spark.master"], given["spark.x"]]
        open("said", "w").write(" ".join([*said, given["spark.speculation"]]))
        """,
    )
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert run(Job(file, ["--flag"], "local[3]", {"spark.x": "y"})) == (0, [])
    finally:
        os.chdir(here)
    assert (tmp_path / "said").read_text() == "Frieda --flag local[3] y false"


def test_a_driver_that_died_is_started_again(tmp_path: Path) -> None:
    file = job_file(
        tmp_path,
        """
        import os, signal, sys
        with open(sys.argv[1], "a+") as lives:
            lives.write("x"); lives.flush(); lives.seek(0)
            life = len(lives.read())
        if life == 1: sys.exit(5)
        if life == 2: os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    lives = tmp_path / "lives"
    code, told = run(Job(file, [str(lives)]), restarts=None)
    assert (code, lives.read_text()) == (0, "xxx")
    assert [line.partition(";")[0] for line in told] == [
        "The driver ended with exit code 5",
        "The driver ended with exit code 137",
    ]
    lives.unlink()
    assert run(Job(file, [str(lives)]), restarts=1)[0] == 137


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("sys.exit(4)", 4, ""),
        ("raise SharedPartitionError('Two met.')", NEEDS_CHANGE, "barnabas: Two met."),
        ("raise UnavailableError('Nobody there.')", 1, "barnabas: Nobody there."),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_how_a_job_ends(
    tmp_path: Path, end: str, code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = job_file(tmp_path, f"import sys\nfrom barnabas.spark.errors import *\n{end}\n")
    assert run(Job(file), restarts=2 if code == NEEDS_CHANGE else 0) == (code, [])
    printed = capfd.readouterr().err
    assert said in printed
    assert ("Traceback" in printed) == (said == "ZeroDivisionError")


def test_refusals_come_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(SparkJobError, match=r"There is no job file .*nothing\.py"):
        run(Job(str(tmp_path / "nothing.py")))
    with pytest.raises(SparkJobError, match="write rows twice"):
        run(Job(job_file(tmp_path, "raise SystemExit(9)"), settings={"spark.speculation": "true"}))


def test_the_line_for_spark_submit() -> None:
    line = Job("job.py", ["a b"], "yarn", {"spark.x": "1"}).spark_submit()
    assert "/bin/spark-submit --master yarn " in line
    assert "--conf spark.speculation=false" in line
    assert line.endswith("--conf spark.x=1 job.py 'a b'")


STARTER = r"""
import subprocess, sys, time
from barnabas.spark.watchdog import Watchdog
# In one write, for both have the same pipe; an unbuffered print would make two of a line.
sleeper = [sys.executable, "-c", "import os, time; os.write(1, b'up\\n'); time.sleep(600)"]
watchdog = Watchdog()
for _ in range(2):
    watchdog.watch(subprocess.Popen(sleeper, start_new_session=True).pid)
time.sleep(600)
"""


def test_nothing_outlives_who_is_killed() -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    assert [starter.stdout.readline() for _ in range(2)] == ["up\n", "up\n"]
    starter.kill()
    # The pipe ends when the last process that holds it has.
    assert starter.communicate(timeout=WAIT_S)[0] == ""
    assert starter.returncode == -signal.SIGKILL


def test_ctrl_c_waits_until_the_driver_can_hear(tmp_path: Path) -> None:
    """A Python that is still importing would print where."""
    slow = """
        import pathlib, sys, time
        if "barnabas.spark.job" in sys.orig_argv:
            pathlib.Path(__file__).with_name("up").touch()
            time.sleep(1)
        """
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(slow))
    file = job_file(tmp_path, "raise SystemExit(9)")
    starter = subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.main", "spark-run", file],
        stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    deadline = time.monotonic() + WAIT_S
    while not (tmp_path / "up").exists():
        assert starter.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    starter.send_signal(signal.SIGINT)
    assert starter.communicate(timeout=WAIT_S)[1] == ""
    assert starter.returncode == 130


def test_a_watchdog_leaves_alone_whom_it_was_told_to_forget() -> None:
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        with Watchdog() as watchdog:
            watchdog.watch(sleeper.pid)
            watchdog.forget(sleeper.pid)
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_the_pauses_begin_again_after_a_life_that_got_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two lives get nowhere, the third gets on, the fourth does not."""
    file = job_file(
        tmp_path,
        """
        import sys
        lives = open("lives", "a+")
        lives.write("x")
        lives.seek(0)
        if len(lives.read()) == 3:
            open("done", "w").close()
        sys.exit(1)
        """,
    )
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    code = run_job(
        Job(file),
        restarts=2,
        pauses=Pauses(0.001),
        tell=told.append,
        how_far=(tmp_path / "done").exists,
    )
    assert code == 1
    pauses = [sentence.rpartition(" in ")[2] for sentence in told]
    assert pauses == ["0.001 s.", "0.002 s.", "0.001 s.", "0.002 s."]
