"""A timer that is set for the past, or for now, fires: a warm start sets such timers (SPARK-56400, SPARK-56566)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

pytestmark = pytest.mark.spark

OFFSETS_MS = (-86_400_000, -1, 0, 1)


class SetsDueTimers(StatefulProcessor):
    """Sets timers around the clock of the micro-batch, and returns those that fire, as distances from that clock."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._now = handle.getValueState("now", "ms long")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        list(rows)
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        self._now.update((now_ms,))
        for offset_ms in OFFSETS_MS:
            self._handle.registerTimer(now_ms + offset_ms)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        yield Row(offset_ms=expiredTimerInfo.getExpiryTimeInMs() - self._now.get()[0])

    def close(self) -> None:
        pass


def test_timers_at_or_before_now_fire_in_the_micro_batch_that_sets_them(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("device\n")
    fired = (
        spark.readStream.text(str(tmp_path / "in"))
        .groupBy("value")
        .transformWithState(SetsDueTimers(), "offset_ms long", "append", "processingTime")
    )
    query = fired.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(once=True).start(str(tmp_path / "out")).awaitTermination()
    offsets = {row.offset_ms for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert offsets == {offset_ms for offset_ms in OFFSETS_MS if offset_ms <= 0}
