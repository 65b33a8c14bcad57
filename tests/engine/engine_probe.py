"""Starts an engine in a folder, and writes a table; prints as JSON what it found."""

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
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "log": [file.name for file in (folder / "table" / "_delta_log").glob("*.json")],
    }
    sys.stdout.write(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
