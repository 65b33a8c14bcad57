"""Draw the README's chart of sessions from the tables of `make notebook-data`: `make pictures` runs this."""

import tempfile
from pathlib import Path

import matplotlib as mpl

from sessionization.notebook.notebook_tables import use_tables
from sessionization.notebook.table_charts import busy_device, device_timeline
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.spark.engine.session import spark_session
from sessionization_laptop.notebook_folders import notebook_data_folder

_CHART = Path(__file__).parents[1] / "docs" / "images" / "device.svg"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session(Path(folder) / "engine.log")
        use_tables(spark, TableLocationSettings(warehouse=notebook_data_folder() / "warehouse"))
        # With this salt and without the date, the same tables give the same bytes.
        with mpl.rc_context({"svg.hashsalt": "device"}):
            device_timeline(spark, busy_device(spark)).savefig(_CHART, metadata={"Date": None})
        spark.stop()


if __name__ == "__main__":
    main()
