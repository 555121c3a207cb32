"""What an edit may not change while a query has a checkpoint, and the refusal when it did.

Taken from Spark's plan, not from the file's text: comments, names of columns, filters and whatever
else keeps no state may change as one likes.
"""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.spark.pipelines.definition import FileSource, Sink, TableSink, TopicSink, TopicSource
from barnabas.spark.pipelines.operators import Operator
from barnabas.spark.pipelines.places import PipelineError
from barnabas.spark.pipelines.queries import Query

VERSION: Final = 1
"""Of the shape's own form: another one tells nothing about this one."""


def shape_of(query: Query) -> dict[str, Any]:
    """For JSON: where it writes, what it reads, and what its state means."""
    plan = query.plan()
    operators = plan.operators()
    shape: dict[str, Any] = {
        "version": VERSION,
        "streams": [_stream(query, name) for name in plan.streams()],
        "state": operators,
    }
    if query.sink is not None:
        shape["sink"] = _sink(query.sink)
    if operators:
        shape["mode"] = query.output_mode
    return shape


def check_same(query: Query, before: Mapping[str, Any]) -> None:
    """PipelineError when a query of the shape `before` can not go on as this one."""
    now = shape_of(query)
    if before.get("version") != VERSION:
        return
    for told in (_other_sink, _other_streams, _other_state, _other_mode):
        difference = told(before, now)
        if difference is not None:
            raise PipelineError(
                query.at,
                f"{query.what} {difference}: give {_renamed(query)} a new name, or run with "
                f"--reset {query.name}, which forgets its state and position.",
            )


def _renamed(query: Query) -> str:
    return "the sink" if query.sink is not None else "the source"


def _stream(query: Query, name: str) -> dict[str, Any]:
    source = query.source if query.source is not None else query.pipeline.sources.get(name)
    if isinstance(source, TopicSource):
        return {"pattern": source.pattern} if source.pattern else {"topics": list(source.topics)}
    if isinstance(source, FileSource):
        return {"format": source.format, "path": source.path}
    return {"format": name, "path": None}


def _sink(sink: Sink) -> str:
    if isinstance(sink, TopicSink):
        return f"topic {sink.topic.value}"
    if isinstance(sink, TableSink):
        return f"table {sink.path.value}"
    # A database's table; its url may change, since databases move and passwords do.
    options = {name.lower(): value for name, value in sink.options.items()}
    place = sink.path if sink.path is not None else options.get("dbtable")
    return f"{sink.format} {place}" if place is not None else sink.format


def _other_sink(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    if before.get("sink") == now.get("sink"):
        return None
    return f"wrote to {before.get('sink')}, and would go on to {now.get('sink')} from the middle"


def _other_streams(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    old, new = before["streams"], now["streams"]
    if len(old) == len(new) and all(map(_goes_on, old, new)):
        return None
    return f"was at a position in {_streams(old)}, and would now read {_streams(new)}"


def _goes_on(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """More topics may be read; what a pattern may lose the source itself finds out."""
    if "topics" in before and "topics" in now:
        return set(before["topics"]) <= set(now["topics"])
    if "pattern" in now:
        return "topics" in before or "pattern" in before
    return before == now


def _streams(streams: list[dict[str, Any]]) -> str:
    return " and ".join(map(_stream_text, streams)) or "no stream"


def _stream_text(stream: Mapping[str, Any]) -> str:
    if "topics" in stream:
        return (
            f"{'topic' if len(stream['topics']) == 1 else 'topics'} {', '.join(stream['topics'])}"
        )
    if "pattern" in stream:
        return f"topics like {stream['pattern']}"
    return " ".join(text for text in (stream["format"], stream["path"]) if text)


def _other_mode(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    if before.get("mode") == now.get("mode"):
        return None
    return f"kept its state for mode {before.get('mode')}, and is now in mode {now.get('mode')}"


def _other_state(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    old, new = before["state"], now["state"]
    if old == new:
        return None
    pairs = [(one, other) for one, other in zip(old, new, strict=False) if one != other]
    if len(old) == len(new) and len(pairs) == 1:
        old, new = [pairs[0][0]], [pairs[0][1]]
    kept = " and for ".join(map(_operator, old)) or "nothing"
    keeps = " and for ".join(map(_operator, new)) or "nothing"
    return f"kept state for {kept}, and would now keep it for {keeps}"


def _operator(operator: Operator) -> str:
    """`aggregation of sum(orders.amount: bigint) by orders.country: string`."""
    told = operator["kind"]
    for field, word in (
        ("function", "by"), ("functions", "of"), ("keys", "by"), ("on", "on"),
        ("left", "with"), ("right", "and"), ("columns", "into"), ("watermarks", "watermarked at"),
    ):  # fmt: skip
        value = operator.get(field)
        if value:
            told += f" {word} {value if isinstance(value, str) else ', '.join(value)}"
    return str(told)
