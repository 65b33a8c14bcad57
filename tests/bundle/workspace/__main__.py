"""Serve a simulated workspace to try the CLI by hand: `python -m tests.bundle.workspace [PORT]`."""

import sys
import threading

from tests.bundle.workspace.server import Workspace, served

with served(Workspace(), int(sys.argv[1]) if len(sys.argv) > 1 else 0) as workspace:
    sys.stdout.write(f"export DATABRICKS_HOST={workspace.host} DATABRICKS_TOKEN=none\n")
    sys.stdout.flush()
    threading.Event().wait()
