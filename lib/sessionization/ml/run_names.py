"""What runs are called in MLflow: one home for those who keep them and those who read them."""

from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

EXPERIMENT: Final = "sessionization"
"""Where stream runs are kept unless `--mlflow` says otherwise; in a workspace below the folder of whoever runs the job."""
BENCHMARK_EXPERIMENT: Final = "sessionization-bench"
KIND_TAG: Final = "sessionization.kind"
"""The tag that says what a run is, whatever its experiment is called: the text of a `RunKind`."""
AUTO: Final = "auto"
OFF: Final = "off"
"""What `--mlflow` may say in place of an experiment."""
RunStatus = Literal["FINISHED", "FAILED"]
_SQLITE: Final = "sqlite:///"


class RunKind(StrEnum):
    STREAM = "stream"
    BENCHMARK = "benchmark"


def sqlite_file(store: str) -> Path | None:
    """The file of a store that is a SQLite file, None for any other.

    >>> sqlite_file("sqlite:////kept/mlflow.db"), sqlite_file("databricks")
    (PosixPath('/kept/mlflow.db'), None)
    """
    return Path(store.removeprefix(_SQLITE)) if store.startswith(_SQLITE) else None
