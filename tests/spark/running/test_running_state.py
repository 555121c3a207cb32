"""What a pipeline remembers, and the lock that keeps a second run away. No Spark is needed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.spark.pipelines.definition import Pipeline
from barnabas.spark.pipelines.lock import Lock, holder_of
from barnabas.spark.pipelines.places import PipelineError
from barnabas.spark.pipelines.reading import read
from barnabas.spark.pipelines.state import State, query_names, reset

WAIT_S = 60.0

FILE = """\
pipeline: {name}
servers: 127.0.0.1:9
state: state
sources:
  orders: {{topic: orders, format: json, schema: id BIGINT, dead_letter: dead}}
  unused: {{topic: other, format: text, dead_letter: dead-too}}
  more: {{topic: more, format: text}}
sinks:
  copy: {{from: orders, topic: copies}}
  kept: {{from: more, table: tables/kept}}
  files: {{from: more, format: parquet, path: files}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return written(tmp_path, "first")


def written(folder: Path, name: str) -> Pipeline:
    file = folder / f"{name}.yaml"
    file.write_text(FILE.format(name=name))
    return read(str(file))


def test_queries_are_sinks_and_the_dead_letters_that_some_sink_needs(pipeline: Pipeline) -> None:
    assert query_names(pipeline) == ["copy", "kept", "files", "dead-letter-orders"]


def test_what_was_kept_is_read_again(pipeline: Pipeline) -> None:
    state = State.of(pipeline)
    assert not os.path.exists(pipeline.state)
    assert state.checkpoint("copy") == os.path.join(pipeline.state, "checkpoints", "copy", "1")
    state.keep_shape("copy", {"keys": ["id"]})
    state.keep_id("copy", "abc")
    assert state.begin_anew("kept") == 2
    again = State.of(pipeline)
    assert (again.query("copy").shape, again.query("copy").id) == ({"keys": ["id"]}, "abc")
    assert again.checkpoint("kept").endswith("/kept/2")
    assert again.begin_anew("copy") == 2
    assert State.of(pipeline).query("copy").shape is None


def test_a_folder_of_another_pipeline_is_refused(tmp_path: Path, pipeline: Pipeline) -> None:
    State.of(pipeline).keep_id("copy", "abc")
    with pytest.raises(PipelineError, match=r"second.yaml:1: .* belongs to pipeline first, not to"):
        State.of(written(tmp_path, "second"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pipeline": "first"}', '{"queries": {"a": 1}}'])
def test_a_damaged_state_is_named(pipeline: Pipeline, text: str) -> None:
    os.makedirs(pipeline.state)
    Path(pipeline.state, "pipeline.json").write_text(text)
    with pytest.raises(PipelineError, match=r"pipeline\.json is damaged"):
        State.of(pipeline)


def test_a_checkpoint_that_is_gone_or_anothers_is_refused(pipeline: Pipeline) -> None:
    state = State.of(pipeline)
    state.check_checkpoint("copy")
    assert not state.has_begun("copy")
    state.keep_id("copy", "abc")
    assert state.has_begun("copy")
    with pytest.raises(PipelineError, match=r"of query copy is gone: .*--reset copy"):
        state.check_checkpoint("copy")
    folder = Path(state.checkpoint("copy"))
    folder.mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "xyz"}))
    with pytest.raises(PipelineError, match="belongs to another query"):
        state.check_checkpoint("copy")
    (folder / "metadata").write_text(json.dumps({"id": "abc"}))
    state.check_checkpoint("copy")
    # Killed between the start and the note of it.
    (Path(pipeline.state) / "pipeline.json").unlink()
    assert State.of(pipeline).has_begun("copy")


def test_a_reset_names_what_it_means_and_never_doubles_a_table(pipeline: Pipeline) -> None:
    state = State.of(pipeline)
    with pytest.raises(PipelineError, match=r"--reset cop: the sinks are copy, kept, files, dead-"):
        reset(pipeline, state, ["copy", "cop"])
    table = Path(pipeline.folder, "tables", "kept")
    table.mkdir(parents=True)
    assert "kept begins anew (generation 2)" in reset(pipeline, state, ["kept"])[0]
    (table / "part-0.parquet").touch()
    with pytest.raises(PipelineError, match=r"first.yaml:10: --reset kept would .* second time"):
        reset(pipeline, state, ["copy", "kept"])
    files = Path(pipeline.folder, "files", "_spark_metadata")
    files.mkdir(parents=True)
    with pytest.raises(PipelineError, match=r"first.yaml:11: --reset files would leave out"):
        reset(pipeline, state, ["copy", "files"])
    assert State.of(pipeline).query("copy").generation == 1


def test_a_table_that_is_named_by_a_uri_is_not_doubled_either(
    tmp_path: Path, pipeline: Pipeline
) -> None:
    table = tmp_path / "tables" / "kept"
    text = Path(pipeline.file).read_text().replace("tables/kept", f"file://{table}")
    Path(pipeline.file).write_text(text)
    pipeline = read(pipeline.file)
    table.mkdir(parents=True)
    (table / "part-0.parquet").touch()
    with pytest.raises(PipelineError, match=r"--reset kept would .* second time"):
        reset(pipeline, State.of(pipeline), ["kept"])


def test_one_run_at_a_time(tmp_path: Path) -> None:
    state = str(tmp_path / "deep" / "state")
    assert holder_of(state) is None
    with Lock(state, "first") as lock:
        assert holder_of(state) == lock.holder
        said = rf"first is running already \(process {os.getpid()} since {lock.holder.since}\)"
        with pytest.raises(PipelineError, match=said):
            Lock(state, "first")
    assert holder_of(state) is None
    Lock(state, "first").__exit__(None, None, None)


# Takes the lock, hands it to a child that ends a little later, and is killed.
HOLDS = """
import os, signal, subprocess, sys
from barnabas.spark.pipelines.lock import Lock
lock = Lock(sys.argv[1], "first")
wait = "import sys, time; time.sleep(float(sys.argv[1]))"
subprocess.Popen([sys.executable, "-c", wait, sys.argv[2]], pass_fds=(lock.descriptor,))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_lock_holds_against_a_child_that_outlives_its_parent(tmp_path: Path) -> None:
    state = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", HOLDS, state, "3"], timeout=WAIT_S, check=False)
    assert done.returncode == -signal.SIGKILL
    holder = holder_of(state)
    assert holder is not None
    assert holder.is_killed
    # Whoever comes now waits for what is left of the run that was killed.
    with Lock(state, "first") as lock:
        assert lock.holder.pid == os.getpid()
