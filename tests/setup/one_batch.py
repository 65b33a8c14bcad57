"""Starts Spark in a folder, runs one micro-batch of a Python operator from Delta to Delta, and prints the rows."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from sessionization.spark.engine.job_conf import OPEN_SOURCE_CONF
from sessionization_laptop.engine.local_session import local_session


class Counter(StatefulProcessor):
    """Counts the rows of a key, in the state store."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        self._count.update((sum(1 for _ in rows),))
        yield Row(key=key[0], n=self._count.get()[0])

    def close(self) -> None:
        pass


def main(folder: Path) -> None:
    spark = local_session(folder / "engine.log", OPEN_SOURCE_CONF | {"spark.sql.shuffle.partitions": "1"})
    spark.range(6).selectExpr("id % 2 AS key").write.format("delta").save(str(folder / "from"))
    counted = (
        spark.readStream.format("delta")
        .load(str(folder / "from"))
        .groupBy("key")
        .transformWithState(Counter(), "key long, n long", "append", "none")
    )
    query = counted.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(once=True).start(str(folder / "to")).awaitTermination()
    rows = spark.read.format("delta").load(str(folder / "to")).orderBy("key").collect()
    sys.stdout.write(f"{[tuple(row) for row in rows]}\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
