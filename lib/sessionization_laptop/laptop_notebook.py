"""The notebook features of Databricks on a laptop: `spark`, `dbutils.widgets`, `display` and `%sql`.

A notebook's first cell calls `set_up`; on Databricks that cell does nothing. Only the features that this project's
notebooks use are here. They behave as in a workspace: a widget retains its value, an unknown widget is an error.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sessionization.errors import ConfigurationError
from sessionization.spark.engine.error_text import root_cause
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS
from sessionization_laptop.notebook_folders import INPUT, WIDGETS_FILE, notebook_tables_folder

MOST_ROWS = 1_000
"""The most rows that `display` shows."""


class LaptopWidgets:
    """`dbutils.widgets`: a new widget takes the value that was given to the notebook, or its default."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._values: dict[str, str] = {}

    def text(
        self,
        name: str,
        defaultValue: str,  # noqa: N803 - as Databricks calls it
        label: str | None = None,  # noqa: ARG002 - a laptop shows no widgets
    ) -> None:
        self._values.setdefault(name, self._given.get(name, defaultValue))

    def dropdown(
        self,
        name: str,
        defaultValue: str,  # noqa: N803 - as Databricks calls it
        choices: Sequence[str],  # noqa: ARG002
        label: str | None = None,
    ) -> None:
        self.text(name, defaultValue, label)

    def get(self, name: str) -> str:
        """Return the value of a widget; raises `ConfigurationError` for a widget that was not made."""
        try:
            return self._values[name]
        except KeyError:
            msg = f"widget {name} is not defined: make it with dbutils.widgets.text({name!r}, ...) first"
            raise ConfigurationError(msg) from None


def set_up(*, players: bool = False, week: bool = False) -> None:
    """Add these features to the calling notebook, with widget values that fit the demo's tables.

    Args:
        players: let the simulator play into the demo's input for a while, if the notebook reads that input. In a
            workspace the job `simulate` does that.
        week: give the notebook the tables of a simulated week instead of the demo's.

    Raises `ConfigurationError` outside of notebooks.
    """
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        msg = "set_up() is for notebooks: open one in JupyterLab (make notebooks) or VS Code"
        raise ConfigurationError(msg)
    folder = notebook_tables_folder()
    given = _widget_values(folder)
    spark = _session(folder)
    if week and given.get("warehouse") in (None, str(folder / "warehouse")):
        from sessionization_laptop.player_week import load_week

        given["warehouse"] = str(load_week(spark, folder / "week", print))
    dbutils = SimpleNamespace(widgets=LaptopWidgets(given))  # the part that the notebooks use
    shell.push({"spark": spark, "dbutils": dbutils, "display": display})
    _teach_sql(shell, spark)
    if week:
        return
    if not (folder / WIDGETS_FILE).is_file():
        print(  # noqa: T201 - a notebook's output
            "There are no tables yet: `make demo` or `make notebook-data` makes some. Or set the widgets' values."
        )
    elif players and given.get("input") == str(folder / INPUT):  # never play into another input
        from sessionization_laptop.notebook_data import play_evening

        play_evening(folder / INPUT)


def display(value: Any) -> None:
    """Show a table (`MOST_ROWS` rows at most), or any other value that a notebook can show."""
    from IPython.display import HTML
    from IPython.display import display as show

    if isinstance(value, DataFrame):
        show(HTML(_html_table(value)))
    else:
        show(value)


def run_sql(spark: SparkSession, source: str, namespace: dict[str, Any]) -> None:
    """Run one statement and show its rows; Python code then finds them in `_sqldf`."""
    try:
        rows = spark.sql(re.sub(r"\s*;\s*$", "", source.strip()))
        namespace["_sqldf"] = rows
        if rows.columns:
            display(rows)
    except PySparkException as error:
        msg = f"%sql: {root_cause(str(error))}"
        raise ConfigurationError(msg) from error


def _session(folder: Path) -> SparkSession:
    from sessionization.spark.engine.session import spark_session

    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM_OPTIONS)
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    return spark_session(folder / "engine.log")


def _widget_values(folder: Path) -> dict[str, str]:
    """Collect the widget values: the demo's, overridden by those of a JSON object in the environment."""
    stores = (folder / "mlflow.db", folder.parent / ".bench" / "mlflow.db")
    given = {
        "folder": str(folder / "tour"),
        "stores": shlex.join(f"sqlite:///{store}" for store in stores if store.is_file()),
    }
    file = folder / WIDGETS_FILE
    if file.is_file():
        given |= json.loads(file.read_text(encoding="utf-8"))
    given |= json.loads(os.environ.get("SESSIONIZATION_WIDGETS", "{}"))
    return given


def _teach_sql(shell: Any, spark: SparkSession) -> None:
    """Register `%sql` for a whole cell, as a workspace has it."""

    def sql(line: str, cell: str = "") -> None:
        run_sql(spark, f"{line}\n{cell}", shell.user_ns)

    def whole_cell(lines: list[str]) -> list[str]:
        magic = re.match(r"\s*%sql\b\s*", text := "".join(lines))
        return ["%%sql\n", *text[magic.end() :].splitlines(keepends=True)] if magic else lines

    shell.register_magic_function(sql, "line_cell", "sql")
    transformers = shell.input_transformers_cleanup
    transformers[:] = [other for other in transformers if getattr(other, "__name__", "") != whole_cell.__name__]
    transformers.append(whole_cell)


def _html_table(rows: DataFrame) -> str:
    from sessionization_laptop.query.spark_answers import as_text  # late: the widgets are used without `rich` too

    fetched = as_text(rows).limit(MOST_ROWS).toPandas().fillna("")
    fetched.columns = rows.columns
    return str(fetched.to_html(index=False, justify="left"))
