"""Draw the chart of sessions in docs/session-rules.md, of a device of the sample evening: `make pictures` runs this."""

import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from pyspark.sql import functions as F

import sessionization_laptop  # noqa: F401 - tells the library how to start Spark on this machine
from sessionization.notebook.charts import draw_sessions
from sessionization.notebook.sample_evening import open_sample
from sessionization.spark.engine.session import spark_session

_CHART = Path(__file__).parents[1] / "docs" / "images" / "device.svg"
_DEVICE = """
SELECT max_by(device_id, struct(reasons, revision, device_id)) AS device FROM (
  SELECT device_id, count(DISTINCT coalesce(end_reason, change)) AS reasons, max(revision) AS revision
  FROM session_changes GROUP BY 1)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session(Path(folder) / "engine.log")
        open_sample(spark)
        # With this salt and without the date, the same tables give the same bytes.
        with mpl.rc_context({"svg.hashsalt": "device"}):
            is_device = F.col("device_id") == F.lit(spark.sql(_DEVICE).collect()[0].device)
            changes = spark.table("device_timeline").where(is_device).orderBy("position")
            messages = spark.table("messages").where(is_device).where("reason IS NULL")
            draw_sessions(changes.toPandas(), messages.toPandas())
            plt.savefig(_CHART, metadata={"Date": None}, bbox_inches="tight")
        spark.stop()


if __name__ == "__main__":
    main()
