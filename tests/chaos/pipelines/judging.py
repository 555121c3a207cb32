"""The outputs of the pipeline against what a batch computation over its input gives."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Message
from deltalake import DeltaTable
from tests.chaos.committed import committed
from tests.chaos.pipelines.readings import Record, wanted


@dataclass(frozen=True)
class Judgement:
    """How much there is, and what is wrong."""

    inputs: int
    windows: int
    rows: int
    dead: int
    problems: list[str]


def judge(servers: str, partitions: int, table: Path) -> Judgement:
    """Compare everything with everything."""
    inputs = [
        Record(each.partition() or 0, each.offset() or 0, each.value() or b"")
        for each in committed(servers, "readings", partitions)
    ]
    target = wanted(inputs)
    windows = Counter(map(_window, committed(servers, "windows", partitions)))
    dead = Counter(map(_dead, committed(servers, "readings-dead", partitions)))
    # Read by a stranger, who knows nothing but the log of the table.
    columns = DeltaTable(str(table)).to_pyarrow_table().to_pydict()
    rows = Counter(
        zip(*(columns[each] for each in ("place", "position", "number", "sensor", "value")),
            strict=True)
    )  # fmt: skip
    problems = [
        *_differences("windows", windows, Counter((*k, *v) for k, v in target.windows.items())),
        *_differences("rows of the table", rows, Counter((*k, *v) for k, v in target.rows.items())),
        *_differences("dead letters", dead, Counter(map(tuple, target.dead.elements()))),
    ]
    return Judgement(len(inputs), windows.total(), rows.total(), dead.total(), problems)


def _window(message: Message) -> tuple[object, ...]:
    document = json.loads(message.value() or b"")
    return document["sensor"], document["start"], document["count"], document["total"]


def _dead(message: Message) -> tuple[object, ...]:
    pairs: list[Any] = list(message.headers() or [])
    headers = {name: value.decode() for name, value in pairs}
    if not headers["barnabas.reason"]:
        raise AssertionError(f"a dead letter without a reason: {headers}")
    return int(headers["barnabas.partition"]), int(headers["barnabas.offset"]), message.value()


def _differences(what: str, found: Counter[tuple[object, ...]], right: Counter[tuple[object, ...]]
                 ) -> list[str]:  # fmt: skip
    problems = []
    for kind, some in (("missing", right - found), ("too many", found - right)):
        if some:
            shown = ", ".join(map(repr, sorted(some, key=repr)[:5]))
            problems.append(f"{what}: {some.total():,} {kind}, among them {shown}")
    return problems
