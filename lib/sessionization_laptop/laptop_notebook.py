"""The notebook features of Databricks on a laptop: `spark`, `dbutils`, `display`, `%sql` and `%run`.

A notebook's first cell calls `set_up`; on Databricks that cell does nothing. Only the features that this project's
notebooks use are here. They behave as in a workspace: a widget retains its value, an unknown widget is an error.
"""

import html
import io
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.errors import ConfigurationError
from sessionization.spark.engine.error_text import root_cause
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS
from sessionization_laptop.notebook_cells import find_notebook, run_cells, split_magic
from sessionization_laptop.notebook_folders import INPUT, WIDGETS_FILE, notebook_tables_folder

_WIDGETS_VARIABLE = "SESSIONIZATION_WIDGETS"
MOST_ROWS = 1_000
"""The most rows that `display` shows."""
_is_a_task = ContextVar("is_a_task", default=False)


class NotebookExit(BaseException):
    """Raised by `dbutils.notebook.exit` to end the notebook; not an error, as in a workspace."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


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
        choices: Sequence[str],
        label: str | None = None,
    ) -> None:
        """Make a widget; raises `ConfigurationError` where the default is none of the choices, as in a workspace."""
        if defaultValue not in choices:
            msg = f"widget {name}: the default {defaultValue!r} is none of its choices: {', '.join(choices)}"
            raise ConfigurationError(msg)
        self.text(name, defaultValue, label)

    def get(self, name: str) -> str:
        """Return the value of a widget; raises `ConfigurationError` for a widget that was not made."""
        try:
            return self._values[name]
        except KeyError:
            msg = f"widget {name} is not defined: make it with dbutils.widgets.text({name!r}, ...) first"
            raise ConfigurationError(msg) from None


class LaptopNotebooks:
    """`dbutils.notebook`: runs other notebooks in this process, with this session and a separate namespace."""

    def __init__(self, spark: SparkSession | None, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def run(
        self,
        path: str,
        timeout_seconds: int,  # noqa: ARG002 - no timeout here
        arguments: Mapping[str, str] | None = None,
    ) -> str | None:
        """Run a notebook with these widget values, and return its exit value.

        Raises `ConfigurationError` where there is no such notebook.
        """
        file = find_notebook(path, self._folder)
        if file is None:
            msg = f"there is no notebook {path} in {self._folder}: name it without its ending"
            raise ConfigurationError(msg)
        return run_notebook(file, self._spark, arguments or {})

    @staticmethod
    def exit(value: str) -> NoReturn:
        raise NotebookExit(value)


class LaptopDbutils:
    """`dbutils` with the parts that the notebooks use."""

    def __init__(self, spark: SparkSession | None, folder: Path, given: Mapping[str, str]) -> None:
        self.widgets = LaptopWidgets(given)
        self.notebook = LaptopNotebooks(spark, folder)


def set_up(*, players: bool = False) -> None:
    """Add these features to the calling notebook, with widget values that fit the demo's tables.

    Does nothing in a notebook that another notebook runs, because that one already has them.

    Args:
        players: let the simulator play into the demo's input for a while, if the notebook reads that input. In a
            workspace the job `simulate` does that.

    Raises `ConfigurationError` outside of notebooks, and for widget values that cannot be read.
    """
    if _is_a_task.get():
        return
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        msg = "set_up() is for notebooks: open one in JupyterLab (make notebooks) or VS Code"
        raise ConfigurationError(msg)
    folder = notebook_tables_folder()
    given = _widget_values(folder)
    spark = _session(folder)
    shell.push({"spark": spark, "dbutils": LaptopDbutils(spark, Path.cwd(), given), "display": display})
    _teach_magics(shell, spark)
    if not (folder / WIDGETS_FILE).is_file():
        print(  # noqa: T201 - a notebook's output
            "There are no tables yet: `make demo` or `make notebook-data` makes some. Or set the widgets' values."
        )
    elif players and given.get("input") == str(folder / INPUT):  # never play into another input
        from sessionization_laptop.notebook_data import play_evening

        play_evening(folder / INPUT)


def run_notebook(file: Path, spark: SparkSession | None, arguments: Mapping[str, str]) -> str | None:
    """Run a notebook like a task: in a separate namespace, with these widget values.

    Returns:
        The value that the notebook passes to `dbutils.notebook.exit`; None if it does not call that.
    """
    namespace: dict[str, Any] = {
        "__name__": "__main__",
        "spark": spark,
        "dbutils": LaptopDbutils(spark, file.parent, arguments),
        "display": display,
    }
    magics = {"%sql": lambda source, _folder: _sql(spark, source, namespace)}

    def run_other(name: str, folder: Path) -> None:
        run_cells(_required_notebook(name, folder), namespace, magics)

    magics["%run"] = run_other
    token = _is_a_task.set(True)
    try:
        run_cells(file, namespace, magics)
    except NotebookExit as request:
        return request.value
    finally:
        _is_a_task.reset(token)
    return None


def display(value: Any) -> None:
    """Show a table (`MOST_ROWS` rows at most), a figure, or any other value that a notebook can show."""
    from IPython.display import HTML, Image
    from IPython.display import display as show

    if isinstance(value, DataFrame):
        show(HTML(_html_table(value)))
    elif type(value).__module__.startswith("matplotlib.") and hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=200)
        show(Image(picture.getvalue(), width=int(value.get_figwidth() * 100)))
    else:
        show(value)


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
        given |= _texts_by_name(file.read_text(encoding="utf-8"), str(file))
    return given | _texts_by_name(os.environ.get(_WIDGETS_VARIABLE, "{}"), _WIDGETS_VARIABLE)


def _texts_by_name(text: str, where: str) -> dict[str, str]:
    try:
        return {str(name): str(value) for name, value in dict(json.loads(text)).items()}
    except (ValueError, TypeError) as error:
        msg = f"{where} holds no values of widgets ({error}): write a JSON object of texts by name, or take it away"
        raise ConfigurationError(msg) from error


def _teach_magics(shell: Any, spark: SparkSession) -> None:
    """Register `%sql` for a whole cell and `%run` for notebooks; `%run` of any other file works as in IPython."""
    run_script: Callable[[str], None] = shell.find_line_magic("run")

    def run(line: str) -> None:
        file = find_notebook(line, Path.cwd())
        if file is None:
            run_script(line)
            return
        run_cells(file, shell.user_ns, {"%sql": run_sql, "%run": lambda name, folder: run(str(folder / name.strip()))})

    def run_sql(source: str, _folder: Path) -> None:
        _sql(spark, source, shell.user_ns)

    def sql(line: str, cell: str = "") -> None:
        _sql(spark, f"{line}\n{cell}", shell.user_ns)

    def whole_cell(lines: list[str]) -> list[str]:
        magic, rest = split_magic("".join(lines))
        return ["%%sql\n", *rest.splitlines(keepends=True)] if magic == "%sql" else lines

    shell.register_magic_function(run, "line", "run")
    shell.register_magic_function(sql, "line_cell", "sql")
    transformers = shell.input_transformers_cleanup
    transformers[:] = [other for other in transformers if getattr(other, "__name__", "") != whole_cell.__name__]
    transformers.append(whole_cell)


def _sql(spark: SparkSession | None, source: str, namespace: dict[str, Any]) -> None:
    """Run one statement and show its rows; Python code then finds them in `_sqldf`."""
    assert spark is not None
    try:
        rows = spark.sql(re.sub(r"\s*;\s*$", "", source.strip()))
        namespace["_sqldf"] = rows
        if rows.columns:
            display(rows)
    except PySparkException as error:
        msg = f"%sql: {root_cause(str(error))}"
        raise ConfigurationError(msg) from error


def _required_notebook(name: str, folder: Path) -> Path:
    file = find_notebook(name, folder)
    if file is None:
        msg = f"%run {name.strip()}: there is no such notebook in {folder}; name it without its ending"
        raise ConfigurationError(msg)
    return file


def _html_table(rows: DataFrame) -> str:
    # Spark formats the values, as in a workspace: instants in UTC, maps and structs in full.
    numbered = rows.toDF(*map(str, range(len(rows.columns))))
    texts = numbered.select(*(F.col(name).cast("string") for name in numbered.columns))
    fetched = texts.limit(MOST_ROWS + 1).collect()
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in rows.columns)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(value or '')}</td>" for value in row) + "</tr>"
        for row in fetched[:MOST_ROWS]
    )
    more = f"<p>the first {MOST_ROWS:,} rows</p>" if len(fetched) > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
