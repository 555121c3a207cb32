"""Where Spark is installed, and whether all of it is."""

import importlib.util
import os
from collections.abc import Mapping
from typing import Final

from barnabas.spark.errors import SparkJobError

_NEEDED: Final = ("pyspark", "pyarrow", "numpy")


def check_installed() -> None:
    """Raise SparkJobError unless PySpark and what it needs can be imported; imports nothing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise SparkJobError(
            f"{' and '.join(missing)} can not be imported: run `pip install 'barnabas[spark]'`."
        )


def spark_home(environment: Mapping[str, str] | None = None) -> str:
    """SPARK_HOME, or the folder of the pip package; it holds `bin` and `jars`."""
    chosen = (os.environ if environment is None else environment).get("SPARK_HOME")
    if chosen:
        if not os.path.isfile(os.path.join(chosen, "bin", "spark-class")):
            raise SparkJobError(
                f"SPARK_HOME is {chosen}, and there is no bin/spark-class: set it to where Spark "
                "is, or unset it to use the Spark of `pip install 'barnabas[spark]'`."
            )
        return chosen
    check_installed()
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkJobError("Spark can not be found: run `pip install 'barnabas[spark]'`.")
    return os.path.dirname(found.origin)
