"""Runs `jobs/preflight.py` as where no Spark is."""

import subprocess
import sys
from pathlib import Path

from tests.support.sources import ROOT

_WITHOUT_SPARK = (
    "import runpy, sys; sys.modules['pyspark'] = sys.modules['py4j'] = None; "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def preflight(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WITHOUT_SPARK, str(ROOT / "jobs" / "preflight.py"), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
