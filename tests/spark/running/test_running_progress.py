"""What Spark tells of batches, as the status shows it."""

import json
from typing import Any

import pytest

from barnabas.spark.pipelines.progress import Meter
from barnabas.spark.pipelines.status import QueryStatus

JAVA = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1f2e"


class Told:
    """One progress, as Java has it."""

    def __init__(self, source: dict[str, Any]) -> None:
        self._source = source

    def batchId(self) -> int:  # noqa: N802 - Spark's name
        return 0

    def timestamp(self) -> str:
        return "2026-11-16T09:00:00.000Z"

    def json(self) -> str:
        source = {"numInputRows": 0, "endOffset": None, "latestOffset": None, **self._source}
        return json.dumps({"batchId": 0, "sources": [source], "sink": {}})


class Query:
    """A query with one progress."""

    def __init__(self, source: dict[str, Any]) -> None:
        self._jsq = self
        self._told = [Told(source)]

    def recentProgress(self) -> list[Told]:  # noqa: N802 - Spark's name
        return self._told


@pytest.mark.parametrize(
    ("source", "described"),
    [
        ({"description": JAVA, "endOffset": {"b": {"0": 1}, "a": {"0": 2}}}, "a, b"),
        ({"description": JAVA, "latestOffset": json.dumps({"a": {"0": 2}})}, "a"),
        ({"description": JAVA}, "PythonMicroBatchStream"),
        ({"description": "FileStreamSource[file:/in]", "endOffset": {"logOffset": 3}},
         "FileStreamSource[file:/in]"),
    ],
)  # fmt: skip
def test_a_source_is_called_by_its_topics(source: dict[str, Any], described: str) -> None:
    status = QueryStatus("q", "p.q")
    query: Any = Query(source)
    Meter(status).look(query)
    assert [each.description for each in status.sources] == [described]
