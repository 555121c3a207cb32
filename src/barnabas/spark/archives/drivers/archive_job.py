"""The driver of `barnabas archive`: its argument is the JSON of what was asked for."""

import json
import sys

from barnabas.spark.archives.archiving import Asked, archive, check
from barnabas.spark.archives.jobs import spark_log
from barnabas.spark.archives.telling import ArchiveLines
from barnabas.spark.archives.troubles import as_one_sentence
from barnabas.spark.quiet import quiet_start
from barnabas.spark.sessions import session


def main() -> None:
    """Archive until it is done or stopped."""
    said = json.loads(sys.argv[1])
    lines = ArchiveLines(as_json=said.pop("as_json"))
    asked = Asked(**said)
    log = spark_log(asked.folder)
    with as_one_sentence(asked.folder, log):
        # Java takes seconds to start, and what is refused is refused at once.
        check(asked)
        with quiet_start(log):
            spark = session(f"archive {asked.topic}")
        lines.end(archive(spark, asked, tell=lines.progress))


if __name__ == "__main__":
    main()
