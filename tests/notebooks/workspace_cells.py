"""Run a notebook's cells as a workspace does, and count what they show."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from sessionization_laptop.laptop_notebook import LaptopWidgets
from tests.support.headless import ROOT
from tests.support.notebook_cells import run_cells


def run_notebook(name: str, spark: Any, widgets: dict[str, str]) -> Counter[str]:
    """Run a notebook in a session, and count its charts and the tables that have rows; every table is fetched."""
    import matplotlib.pyplot as plt

    shown: Counter[str] = Counter()

    def display(value: Any) -> None:
        shown["table"] += bool(value.collect() if hasattr(value, "collect") else len(value))

    namespace = {"spark": spark, "dbutils": SimpleNamespace(widgets=LaptopWidgets(widgets)), "display": display}
    magics = {"%sql": lambda source, _folder: display(spark.sql(source.strip().removesuffix(";")))}
    run_cells(ROOT / "notebooks" / f"{name}.ipynb", namespace, magics)
    shown["Figure"] = len(plt.get_fignums())
    plt.close("all")
    return shown
