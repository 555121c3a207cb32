"""What Spark says against a file's words, as a sentence with the line they stand on."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from barnabas.spark.deaths import sentence_of
from barnabas.spark.pipelines.places import At, PipelineError


@contextmanager
def refused(at: At, what: str) -> Iterator[None]:
    """Turn Spark's refusals within into PipelineErrors: `orders.yaml:12: <what>: …`."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise PipelineError(at, f"{what}: {sentence_of(error)}") from error


def did_you_mean(given: str, known: Collection[str]) -> str:
    """`: did you mean sep?`, or what there is to choose from."""
    near = get_close_matches(given.lower(), [name.lower() for name in known], n=1)
    if near:
        meant = next(name for name in known if name.lower() == near[0])
        return f"did you mean {meant}?"
    return f"there are {', '.join(sorted(known))}." if known else "there are none."
