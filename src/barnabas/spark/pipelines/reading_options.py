"""Options that a pipeline file passes on to Spark and to the Kafka client."""

from typing import Final

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.pipelines.fields import Fields

_DECIDED: Final = {
    "bootstrap.servers": "servers says that for the whole pipeline",
    "group.id": "every query has a group of its own, <pipeline>.<sink>",
    "transactional.id": "every sink has one of its own",
}


def kafka_options(fields: Fields) -> dict[str, str]:
    """The key `kafka`: settings of the client as Kafka names them."""
    options = fields.options("kafka")
    inner = fields.under("kafka") if options else None
    for name in options:
        if inner is None:
            raise BrokenInvariantError("inner is there by now")
        if name.startswith("kafka."):
            inner.wrong(name, f"has kafka. twice: write {name.removeprefix('kafka.')}.")
        elif name in _DECIDED:
            inner.wrong(name, f"can not be set: {_DECIDED[name]}.")
    return options


def spark_settings(fields: Fields) -> dict[str, str]:
    """The key `settings`: Spark's own."""
    options = fields.options("settings")
    inner = fields.under("settings") if options else None
    for name in options:
        if inner is not None and not name.startswith("spark."):
            inner.wrong(name, "is no setting of Spark's: all of them begin with spark.")
    return options
