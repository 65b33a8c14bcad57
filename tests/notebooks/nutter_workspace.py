"""Nutter's own CLI on the notebooks of this machine; a stand-in answers its calls to a workspace.

`python -m tests.notebooks.nutter_workspace run "FOLDER/*" local --junit_report` is `nutter run …` with a stand-in for
the client of three calls: `workspace/list`, `jobs/runs/submit` and `jobs/runs/get-output`. All notebooks of one CLI
run share a Spark session, which starts only if a notebook uses `spark`.
"""

import os
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from sessionization_laptop import laptop_notebook
from tests.support.notebook_cells import SOURCE_HEADER, find_notebook, read_cells, run_cells

_SUCCESS, _FAILED = "SUCCESS", "FAILED"


class NotebookExit(BaseException):
    """Raised by `dbutils.notebook.exit` to end the notebook; not an error, as in a workspace."""


def run_notebook(file: Path, spark: Any, arguments: Mapping[str, str]) -> str | None:
    """Run a notebook like a task, with these widget values and a namespace of its own; return its exit value."""
    exit_values: list[str] = []

    def end(value: str) -> None:
        exit_values.append(value)
        raise NotebookExit

    def run_other(path: str, _timeout_s: int, given: Mapping[str, str]) -> str | None:
        return run_notebook(find_notebook(path, file.parent), spark, given)

    dbutils = SimpleNamespace(
        widgets=laptop_notebook.LaptopWidgets(arguments), notebook=SimpleNamespace(run=run_other, exit=end)
    )
    namespace = {"__name__": "__main__", "spark": spark, "dbutils": dbutils, "display": print}
    magics = {"%run": lambda name, folder: run_cells(find_notebook(name, folder), namespace, magics)}
    with patch.object(laptop_notebook, "set_up", lambda **_: None), suppress(NotebookExit):
        run_cells(file, namespace, magics)
    return exit_values[0] if exit_values else None


class LocalWorkspace:
    """Replaces `databricks_api.DatabricksAPI`, the client that nutter uses."""

    def __init__(self, host: str, token: str) -> None:  # noqa: ARG002 - the client's signature
        self.workspace = SimpleNamespace(list=self._list)
        self.jobs = SimpleNamespace(submit_run=self._submit, get_run_output=self._output)
        self._spark: Any = None
        self._outputs: list[dict[str, Any]] = []

    def _list(self, path: str) -> dict[str, Any]:
        """List notebooks as a workspace does: without their extension, and without other files."""
        objects = [
            {"path": str(file.with_suffix("")), "object_type": "NOTEBOOK"}
            for file in sorted(Path(path).glob("*.py"))
            if file.read_text(encoding="utf-8").startswith(SOURCE_HEADER)
        ]
        folders = [
            {"path": str(folder), "object_type": "DIRECTORY"} for folder in Path(path).iterdir() if folder.is_dir()
        ]
        return {"objects": objects + folders}

    def _submit(self, notebook_task: Mapping[str, Any], **_name_and_cluster: str) -> dict[str, int]:
        """Run the notebook to its end; a run's number is its position in the list of outputs."""
        path = str(notebook_task["notebook_path"])
        given = {one["key"]: str(one["value"]) for one in notebook_task.get("base_parameters", ())}
        output: dict[str, Any] = {"metadata": {"task": {"notebook_task": {"notebook_path": path}}, "run_page_url": ""}}
        try:
            file = find_notebook(path, Path("/"))
            assert file is not None, f"there is no notebook {path}"
            result = run_notebook(file, self._session(file), given)
            output["notebook_output"] = {"result": result}
            state = _SUCCESS
        except Exception:  # noqa: BLE001 - whatever a notebook raises, its run has failed
            output["error"] = traceback.format_exc()
            sys.stderr.write(output["error"])
            state = _FAILED
        output["metadata"]["state"] = {"life_cycle_state": "TERMINATED", "result_state": state}
        self._outputs.append(output)
        return {"run_id": len(self._outputs)}

    def _output(self, run_id: int) -> dict[str, Any]:
        return self._outputs[run_id - 1]

    def _session(self, file: Path) -> Any:
        if self._spark is None and any(
            re.search(r"\bspark\b", cell.source) for cell in read_cells(file) if not cell.magic
        ):
            from sessionization.spark.engine.session import spark_session

            self._spark = spark_session(Path.cwd() / "engine.log")
        return self._spark


def main() -> None:
    # The client needs both variables; their values do not matter.
    os.environ.setdefault("DATABRICKS_HOST", "http://127.0.0.1")
    os.environ.setdefault("DATABRICKS_TOKEN", "none")
    import common.apiclient
    from cli.nuttercli import main as nutter

    common.apiclient.DatabricksAPI = LocalWorkspace
    nutter()


if __name__ == "__main__":
    main()
