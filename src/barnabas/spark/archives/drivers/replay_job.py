"""The driver of `barnabas replay`: its argument is the JSON of what was asked for."""

import json
import sys

from barnabas.spark.archives.jobs import spark_log
from barnabas.spark.archives.replaying import Replaying, carry_out
from barnabas.spark.archives.telling import ReplayBar
from barnabas.spark.archives.troubles import as_one_sentence
from barnabas.spark.quiet import quiet_start
from barnabas.spark.sessions import session


def main() -> None:
    """Carry the plan out, or go on with it."""
    said = json.loads(sys.argv[1])
    bar = ReplayBar(as_json=said["as_json"])
    asked = Replaying(said["folder"], said["topic"], said["servers"], **said["choices"])
    log = spark_log(asked.folder)
    with as_one_sentence(asked.folder, log):
        with quiet_start(log):
            spark = session(f"replay {asked.topic}")
        bar.end(carry_out(spark, asked, said["plan"], tell=bar.progress))


if __name__ == "__main__":
    main()
