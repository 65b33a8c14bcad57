"""Run a notebook's cells as a workspace does, and count what they show. Also the command for such a run on a laptop."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from sessionization.command_line.parser import say_on_stdout
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


def main(folder: Path, names: list[str], widgets: dict[str, str]) -> None:
    """Run notebooks one after the other in an engine of this process, and print the counts by name."""
    from sessionization.spark.engine.job_conf import OPEN_SOURCE_CONF
    from sessionization_laptop.engine.local_session import local_session

    spark = local_session(folder / "engine.log", OPEN_SOURCE_CONF | {"spark.master": "local[2]"})
    say_on_stdout(json.dumps({name: run_notebook(name, spark, widgets) for name in names}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2].split(), json.loads(sys.argv[3]))
