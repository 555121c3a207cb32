"""What the process that holds a pipeline's lock hands to the driver it starts."""

from dataclasses import dataclass
from typing import Final

from barnabas.spark.pipelines.definition import Pipeline

LOG: Final = "spark.log"
"""In the state folder: what Spark and everything below it have to say."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to run, and how."""

    pipeline: Pipeline
    run: str
    """When the run began, of which the driver is a part."""
    once: bool = False
    restarts: int | None = None
    """Of each query, in a row; None: no bound."""
