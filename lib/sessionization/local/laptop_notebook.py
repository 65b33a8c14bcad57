"""What a notebook finds on Databricks without asking, for a laptop: `spark`, `dbutils`, `display`, `%sql`, `%run`.

A notebook's first cell calls `set_up`; on Databricks that cell does nothing. Only what notebooks here use is there, and
it behaves as in a workspace: a widget keeps its value, a name that was not made is an error.
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
from sessionization.local.demo_folder import INPUT, WIDGETS_FILE, demo_folder
from sessionization.local.notebook_cells import find_notebook, run_cells, split_magic
from sessionization.local_engine.local_session import SHORT_LIVED_JVM
from sessionization.spark.engine.error_text import root_cause

_WIDGETS_VARIABLE = "SESSIONIZATION_WIDGETS"
MOST_ROWS = 1_000
"""As many rows does `display` show."""
_is_a_task = ContextVar("is_a_task", default=False)


class NotebookExit(BaseException):
    """Raised by `dbutils.notebook.exit`; no error, but the end of the notebook, as in a workspace."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


class LaptopWidgets:
    """`dbutils.widgets`: a widget that is made takes the value given to the notebook, else its default."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._values: dict[str, str] = {}

    def text(self, name: str, defaultValue: str, label: str | None = None) -> None:  # noqa: ARG002, N803 - as Databricks calls it
        self._values.setdefault(name, self._given.get(name, defaultValue))

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None) -> None:  # noqa: N803
        """Raises `ConfigurationError` where the default is no choice, as a workspace does."""
        if defaultValue not in choices:
            msg = f"widget {name}: the default {defaultValue!r} is none of its choices: {', '.join(choices)}"
            raise ConfigurationError(msg)
        self.text(name, defaultValue, label)

    def get(self, name: str) -> str:
        """Raises `ConfigurationError` for a widget that was not made."""
        try:
            return self._values[name]
        except KeyError:
            msg = f"widget {name} is not defined: make it with dbutils.widgets.text({name!r}, ...) first"
            raise ConfigurationError(msg) from None


class LaptopNotebooks:
    """`dbutils.notebook`: other notebooks run in this process, with this session and a namespace of their own."""

    def __init__(self, spark: SparkSession | None, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def run(self, path: str, timeout_seconds: int, arguments: Mapping[str, str] | None = None) -> str | None:  # noqa: ARG002 - nothing is cut off here
        """Run a notebook with widgets of these values; returns what it exits with.

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
    """The `dbutils` of a laptop."""

    def __init__(self, spark: SparkSession | None, folder: Path, given: Mapping[str, str]) -> None:
        self.widgets = LaptopWidgets(given)
        self.notebook = LaptopNotebooks(spark, folder)


def set_up(*, players: bool = False) -> None:
    """Give the notebook that calls it all of that, and widgets whose values fit the demo's tables.

    Does nothing in a notebook that another one runs: that has all of it already.

    Args:
        players: have the simulator play into the demo's input for a while, as the job `simulate` would, where the
            notebook reads that.

    Raises `ConfigurationError` outside of notebooks, and for widgets' values that cannot be read.
    """
    if _is_a_task.get():
        return
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        msg = "set_up() is for notebooks: open one in JupyterLab (make notebooks) or VS Code"
        raise ConfigurationError(msg)
    folder = demo_folder()
    given = _given(folder)
    spark = _session(folder)
    shell.push({"spark": spark, "dbutils": LaptopDbutils(spark, Path.cwd(), given), "display": display})
    _teach_magics(shell, spark)
    if not (folder / WIDGETS_FILE).is_file():
        print("There are no demo tables yet: `make notebook-data` makes them; or set the widgets' values yourself.")  # noqa: T201
    elif players and given.get("input") == str(folder / INPUT):  # nobody else's input is played into
        from sessionization.local.notebook_data import play_evening

        play_evening(folder / INPUT)


def run_notebook(file: Path, spark: SparkSession | None, arguments: Mapping[str, str]) -> str | None:
    """Run a notebook as a task would: in a namespace of its own, with widgets of these values.

    Returns:
        What it gives to `dbutils.notebook.exit`, None where it does not call that.
    """
    namespace: dict[str, Any] = {
        "__name__": "__main__",
        "spark": spark,
        "dbutils": LaptopDbutils(spark, file.parent, arguments),
        "display": display,
    }
    magics = {"%sql": lambda source, _folder: _sql(spark, source, namespace)}

    def run_other(named: str, folder: Path) -> None:
        run_cells(_found(named, folder), namespace, magics)

    magics["%run"] = run_other
    before = _is_a_task.set(True)
    try:
        run_cells(file, namespace, magics)
    except NotebookExit as request:
        return request.value
    finally:
        _is_a_task.reset(before)
    return None


def display(shown: Any) -> None:
    """Show a table (`MOST_ROWS` rows at most), a figure, or whatever a notebook can show."""
    from IPython.display import HTML, Image
    from IPython.display import display as show

    if isinstance(shown, DataFrame):
        show(HTML(_table(shown)))
    elif type(shown).__module__.startswith("matplotlib.") and hasattr(shown, "savefig"):
        picture = io.BytesIO()
        shown.savefig(picture, format="png", dpi=200)
        show(Image(picture.getvalue(), width=int(shown.get_figwidth() * 100)))
    else:
        show(shown)


def _session(folder: Path) -> SparkSession:
    from sessionization.spark.engine.session import spark_session

    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM)
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    return spark_session(folder / "engine.log")


def _given(folder: Path) -> dict[str, str]:
    """The widgets' values: of the demo, and on top of them those that the environment gives, as a JSON object."""
    kept = (folder / "mlflow.db", folder.parent / ".bench" / "mlflow.db")
    given = {
        "folder": str(folder / "tour"),
        "stores": shlex.join(f"sqlite:///{store}" for store in kept if store.is_file()),
    }
    file = folder / WIDGETS_FILE
    if file.is_file():
        given |= _texts_by_name(file.read_text(encoding="utf-8"), str(file))
    return given | _texts_by_name(os.environ.get(_WIDGETS_VARIABLE, "{}"), _WIDGETS_VARIABLE)


def _texts_by_name(said: str, where: str) -> dict[str, str]:
    try:
        return {str(name): str(text) for name, text in dict(json.loads(said)).items()}
    except (ValueError, TypeError) as error:
        msg = f"{where} holds no values of widgets ({error}): write a JSON object of texts by name, or take it away"
        raise ConfigurationError(msg) from error


def _teach_magics(shell: Any, spark: SparkSession) -> None:
    """`%sql` for a whole cell, and `%run` of a notebook; what `%run` meant before, it means for other files."""
    run_script: Callable[[str], None] = shell.find_line_magic("run")

    def run(line: str) -> None:
        file = find_notebook(line, Path.cwd())
        if file is None:
            run_script(line)
            return
        run_cells(file, shell.user_ns, {"%sql": sql_of, "%run": lambda named, folder: run(str(folder / named.strip()))})

    def sql_of(source: str, _folder: Path) -> None:
        _sql(spark, source, shell.user_ns)

    def sql(line: str, cell: str = "") -> None:
        _sql(spark, f"{line}\n{cell}", shell.user_ns)

    def whole_cell(lines: list[str]) -> list[str]:
        magic, rest = split_magic("".join(lines))
        return ["%%sql\n", *rest.splitlines(keepends=True)] if magic == "%sql" else lines

    shell.register_magic_function(run, "line", "run")
    shell.register_magic_function(sql, "line_cell", "sql")
    transformers = shell.input_transformers_cleanup
    transformers[:] = [known for known in transformers if getattr(known, "__name__", "") != whole_cell.__name__]
    transformers.append(whole_cell)


def _sql(spark: SparkSession | None, source: str, namespace: dict[str, Any]) -> None:
    """Run one statement and show its rows, which Python then finds in `_sqldf`."""
    assert spark is not None
    try:
        rows = spark.sql(re.sub(r"\s*;\s*$", "", source.strip()))
        namespace["_sqldf"] = rows
        if rows.columns:
            display(rows)
    except PySparkException as error:
        msg = f"%sql: {root_cause(str(error))}"
        raise ConfigurationError(msg) from error


def _found(named: str, folder: Path) -> Path:
    file = find_notebook(named, folder)
    if file is None:
        msg = f"%run {named.strip()}: there is no such notebook in {folder}; name it without its ending"
        raise ConfigurationError(msg)
    return file


def _table(rows: DataFrame) -> str:
    # Spark writes the values, as it does in a workspace: instants in UTC, maps and structs in full.
    numbered = rows.toDF(*map(str, range(len(rows.columns))))
    texts = numbered.select(*(F.col(name).cast("string") for name in numbered.columns))
    found = texts.limit(MOST_ROWS + 1).collect()
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in rows.columns)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(value or '')}</td>" for value in row) + "</tr>"
        for row in found[:MOST_ROWS]
    )
    more = f"<p>the first {MOST_ROWS:,} rows</p>" if len(found) > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
