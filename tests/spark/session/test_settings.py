"""What a session is started with: our settings, other people's, and what is refused."""

import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import barnabas.spark
from barnabas.spark.errors import SparkJobError
from barnabas.spark.installation import check_installed, spark_home
from barnabas.spark.sessions import decide, prepare_environment, session, settings_for_jobs
from barnabas.spark.submitted import submit_arguments, submitted_settings

BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
STAGES = "spark.stage.maxConsecutiveAttempts"


def test_settings_of_people_win() -> None:
    decided = decide({BATCH: "7", "spark.app.name": "mine"})
    assert decided[BATCH] == "7"
    assert decided["spark.app.name"] == "mine"
    assert decided["spark.speculation"] == "false"
    assert decided["spark.sql.python.filterPushdown.enabled"] == "true"


@pytest.mark.parametrize(("key", "value"), [("spark.speculation", "True"), (STAGES, "4")])
def test_what_could_write_twice_is_refused(key: str, value: str) -> None:
    with pytest.raises(SparkJobError, match=f"{key}={value} could make .* write rows twice"):
        decide({key: value})
    assert decide({"spark.speculation": "FALSE", STAGES: "1"})[STAGES] == "1"


def test_quick_checkpoints_are_asked_for_and_not_for_object_stores() -> None:
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    where = "spark.sql.streaming.checkpointLocation"
    assert manager not in settings_for_jobs()
    assert manager in settings_for_jobs(quick_checkpoints=True)
    for fine in ("/data/checkpoints", "file:/data", "hdfs://name/data"):
        assert manager in decide({where: fine}, quick_checkpoints=True)
    with pytest.raises(SparkJobError, match=r"s3a://bucket/.*leave quick_checkpoints out"):
        decide({where: "s3a://bucket/data"}, quick_checkpoints=True)
    assert decide({where: "s3a://bucket/data"})[where] == "s3a://bucket/data"


def test_what_was_submitted_is_known_before_java_starts(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        f"# ours\n\nspark.master  spark://defaults:7077\n{BATCH}=5\nspark.eventLog.enabled: true\n"
    )
    said = f"--master yarn --conf {BATCH}=6 --conf=spark.a='b c' --verbose --name n pyspark-shell"
    environment = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": said}
    assert submitted_settings(environment, "/nowhere") == {
        "spark.master": "yarn",
        "spark.app.name": "n",
        "spark.a": "b c",
        BATCH: "6",
        "spark.eventLog.enabled": "true",
    }
    assert submitted_settings({}, "/nowhere") == {}


def test_a_properties_file_replaces_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.one 1\n")
    (tmp_path / "mine.conf").write_text("spark.two 2\n")
    said = f"--properties-file {tmp_path / 'mine.conf'} pyspark-shell"
    environment = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": said}
    assert submitted_settings(environment, "/nowhere") == {"spark.two": "2"}


def test_submit_arguments_are_read_back_as_they_were_written() -> None:
    settings = {"spark.master": "local[2]", "spark.x": "a 'quoted' value", "spark.y": ""}
    line = submit_arguments(settings, "--verbose --conf spark.z=1 pyspark-shell")
    assert shlex.split(line)[-1] == "pyspark-shell"
    assert line.count("pyspark-shell") == 1
    found = submitted_settings({"PYSPARK_SUBMIT_ARGS": line}, "/nowhere")
    assert found == settings | {"spark.z": "1"}


@pytest.mark.parametrize(
    ("master", "python", "address"),
    [
        ("local", True, True),
        ("local[*,4]", True, True),
        ("spark://127.0.0.1:7077", True, True),
        ("spark://master.example:7077", True, False),
        ("yarn", False, False),
        ("k8s://https://10.0.0.1:6443", False, False),
    ],
)
def test_python_and_address(master: str, python: bool, address: bool) -> None:
    environment: dict[str, str] = {}
    prepare_environment(master, environment)
    assert environment["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert ("PYSPARK_PYTHON" in environment, "SPARK_LOCAL_IP" in environment) == (python, address)
    chosen = {"PYSPARK_PYTHON": "/p", "PYSPARK_DRIVER_PYTHON": "/d", "SPARK_LOCAL_IP": "10.0.0.9"}
    kept = dict(chosen)
    prepare_environment(master, kept)
    assert kept == chosen


def test_a_running_session_is_changed_where_that_is_possible(spark: SparkSession) -> None:
    needed = f"{STAGES} is unset instead of 1"
    with pytest.raises(SparkJobError, match=f"{needed}.*spark.stop"):
        session()
    with pytest.raises(SparkJobError, match=r"its master is local\[2\] instead of local\[9\]"):
        session(master="local[9]")
    with pytest.raises(SparkJobError, match=r"spark\.driver\.memory is 1g instead of 7g"):
        session(settings={"spark.driver.memory": "7g"})
    with pytest.raises(SparkJobError, match="write rows twice"):
        session(settings={"spark.speculation": "true"})
    # What can be changed was, whatever else had to be refused; and what people set has stayed.
    assert spark.conf.get(BATCH) == "50000"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    spark.conf.unset(BATCH)


def test_connect_has_its_settings_elsewhere() -> None:
    with pytest.raises(SparkJobError, match="settings_for_jobs"):
        session(master="sc://localhost")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SparkJobError, match=r"SPARK_HOME is .*unset it"):
        spark_home({"SPARK_HOME": str(tmp_path)})
    assert os.path.isdir(os.path.join(spark_home({}), "jars"))
    found = importlib.util.find_spec

    def lacking(name: str, package: str | None = None) -> object:
        return None if name == "pyspark" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", lacking)
    with pytest.raises(SparkJobError, match=r"pyspark can not be imported.*barnabas\[spark\]"):
        check_installed()


def test_the_room_is_imported_without_spark() -> None:
    asked = (
        "import sys, barnabas.spark; print([m for m in ('pyspark', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    asked = (
        "import barnabas.spark.to_topic; from barnabas.spark import to_topic\n"
        "from barnabas.spark.to_topic import to_topic as same; print(to_topic is same)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert barnabas.spark.session is session
    with pytest.raises(AttributeError, match="sessoin"):
        barnabas.spark.sessoin  # noqa: B018 - a name that is not there
