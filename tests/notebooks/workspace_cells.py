"""Run a notebook's cells as a workspace does, and count what they show."""

from collections import Counter
from typing import Any

from sessionization_laptop.laptop_notebook import LaptopDbutils
from tests.support.headless import ROOT
from tests.support.notebook_cells import run_cells


def run_notebook(name: str, spark: Any, widgets: dict[str, str]) -> Counter[str]:
    """Run a notebook in a session, and count what it shows by type; every table is fetched."""
    shown: Counter[str] = Counter()

    def display(value: Any) -> None:
        if hasattr(value, "collect"):
            assert value.collect(), f"table {shown['table'] + 1} of {name} has no rows"
        shown["table" if hasattr(value, "collect") else type(value).__name__] += 1

    namespace = {"spark": spark, "dbutils": LaptopDbutils(widgets), "display": display}
    magics = {"%sql": lambda source, _folder: display(spark.sql(source.strip().removesuffix(";")))}
    run_cells(ROOT / "notebooks" / f"{name}.ipynb", namespace, magics)
    return shown
