"""Several streams of one Spark may start at the same moment.

Spark 4.3 keeps one function for each Python data source, and every stream that starts puts its
settings into that function's environment: a map of Scala's that two threads must not grow at once.
If they do, it counts one entry too many for ever, and no query of that Java can be serialised any
more ("Illegal size 5 of collection, expected 6"). So what streams will put there is there before
the first starts: replacing a value does not make a map grow.
"""

import logging
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.deaths import said_by, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("barnabas.spark")
_FORMAT: Final = "barnabas"
_SETTINGS: Final = (
    "SPARK_LOCAL_DIRS",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
)
"""What a stream puts into the environment of its source when it starts."""


def allow_starts_at_once(spark: "SparkSession") -> None:
    """To be called before streams start; costs a second, which the first would have cost."""
    try:
        environment = environment_of_source(spark)
        for name in _SETTINGS:
            environment.putIfAbsent(name, "")
    except spark_errors() as error:
        # A Spark that is made in another way may not need it either.
        _LOG.warning("Streams that start at once may disturb each other: %s", said_by(error))


def environment_of_source(spark: "SparkSession") -> Any:
    """The map (of Java's face) that all streams of this format share."""
    session: Any = spark._jsparkSession
    source = session.sessionState().dataSourceManager().lookupDataSource(_FORMAT)
    return source.dataSourceCls().envVars()
