"""Names of experiments, tags and run kinds in MLflow, shared by the code that stores runs and that reads them."""

from enum import StrEnum
from typing import Final

EXPERIMENT: Final = "sessionization"
"""The experiment of stream runs without `--mlflow`; in a workspace it is in the folder of the user who runs the job."""
LENGTH_EXPERIMENT: Final = "session_length"
"""The experiment of trainings; where it is in a workspace, see `EXPERIMENT`."""
BENCHMARK_EXPERIMENT: Final = "sessionization-bench"
KIND_TAG: Final = "sessionization.kind"
"""The tag that holds a run's `RunKind` as text, independent of the experiment's name."""
AUTO: Final = "auto"
OFF: Final = "off"
"""Like `AUTO`, a value of `--mlflow` that is not the name of an experiment."""


class RunKind(StrEnum):
    STREAM = "stream"
    BENCHMARK = "benchmark"
    TRAINING = "training"
