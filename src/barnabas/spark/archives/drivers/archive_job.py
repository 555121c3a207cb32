"""The driver of `barnabas archive`: its argument is the JSON of what was asked for."""

import json
import sys

from barnabas.spark.archives.archiving import Asked, archive, check
from barnabas.spark.archives.jobs import spark_log
from barnabas.spark.archives.telling import ArchiveLines
from barnabas.spark.quiet import quiet_start
from barnabas.spark.sessions import session


def main() -> None:
    """Archive until it is done or stopped."""
    said = json.loads(sys.argv[1])
    lines = ArchiveLines(as_json=said.pop("as_json"))
    asked = Asked(**said)
    # Java takes seconds to start, and what is refused is refused at once.
    check(asked)
    with quiet_start(spark_log(asked.folder)):
        spark = session(f"archive {asked.topic}")
    lines.end(archive(spark, asked, tell=lines.progress))


if __name__ == "__main__":
    main()
