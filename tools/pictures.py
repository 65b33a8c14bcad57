"""Draw the README's chart of sessions, of a device of the sample evening: `make pictures` runs this."""

import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from sessionization.notebook.charts import draw_sessions
from sessionization.notebook.sample_evening import open_sample
from sessionization.spark.engine.session import spark_session

_CHART = Path(__file__).parents[1] / "docs" / "images" / "device.svg"
_CHANGES = "SELECT * FROM device_timeline WHERE device_id = :device ORDER BY position"
_MESSAGES = "SELECT * FROM messages WHERE device_id = :device AND reason IS NULL"
_DEVICE = """
SELECT max_by(device_id, struct(reasons, revision, device_id)) AS device FROM (
  SELECT device_id, count(DISTINCT end_reason) AS reasons, max(revision) AS revision FROM session_changes GROUP BY 1)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session(Path(folder) / "engine.log")
        open_sample(spark)
        # With this salt and without the date, the same tables give the same bytes.
        with mpl.rc_context({"svg.hashsalt": "device"}):
            device = spark.sql(_DEVICE).collect()[0].asDict()
            draw_sessions(spark.sql(_CHANGES, device).toPandas(), spark.sql(_MESSAGES, device).toPandas())
            plt.savefig(_CHART, metadata={"Date": None}, bbox_inches="tight")
        spark.stop()


if __name__ == "__main__":
    main()
