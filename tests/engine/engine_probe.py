"""Starts an engine in a folder, writes a table and runs Python in a worker, and prints as JSON what it found."""

import json
import sys
from pathlib import Path
from typing import Any

from sessionization.spark.engine.job_conf import OPEN_SOURCE_CONF
from sessionization_laptop.engine.local_session import local_session


def main(folder: Path) -> None:
    spark: Any = local_session(folder / "engine.log", OPEN_SOURCE_CONF)
    context = spark.sparkContext
    spark.range(1).write.format("delta").save(str(folder / "table"))
    found = {
        "master": context.master,
        "user": context.sparkUser(),
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "temporary": spark._jvm.java.lang.System.getProperty("java.io.tmpdir"),
        "log": [file.name for file in (folder / "table" / "_delta_log").glob("*.json")],
        "computed": context.parallelize([1, 2, 3], 1).map(lambda number: number + 1).collect(),
    }
    sys.stdout.write(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
