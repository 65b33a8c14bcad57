"""The job, then notebooks on its tables, in one process and engine: `lane_job.py OPTION...` with the job's options.

The job ends by its stop file. The counts of what each notebook shows go to `shown.json` in the working folder.
"""

import json
import os
import runpy
import sys
from pathlib import Path

from sessionization.spark.engine.job_conf import OPEN_SOURCE_CONF
from sessionization_laptop.engine.local_session import local_session
from tests.notebooks.workspace_cells import run_notebook
from tests.support.headless import ROOT

NOTEBOOKS = ("03_query_sessions", "06_predict_remaining")


def main(folder: Path) -> None:
    spark = local_session(folder / "engine.log", OPEN_SOURCE_CONF | {"spark.master": "local[2]"})
    try:
        runpy.run_path(str(ROOT / "jobs" / "sessionize.py"), run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    os.environ["DATABRICKS_RUNTIME_VERSION"] = "19.0"
    widgets = {"warehouse": str(folder / "warehouse"), "checkpoints": str(folder / "checkpoints")}
    shown = {name: run_notebook(name, spark, dict(widgets)) for name in NOTEBOOKS}
    (folder / "shown.json").write_text(json.dumps(shown), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(Path.cwd())
    sys.exit(0)
