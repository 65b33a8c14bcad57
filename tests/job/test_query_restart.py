"""A query starts again where a Python worker was slow, and only there."""

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sessionization.job.query_restart import restart_slow_workers
from sessionization.spark.pipeline import Pipeline

SLOW = "[STREAM_FAILED] ... org.apache.spark.SparkException: Python worker failed to connect back."


@dataclass
class Queries:
    """Stands for a pipeline whose queries end with these errors each time they are started."""

    errors: dict[str, str | None]
    restarts: Counter[str] = field(default_factory=Counter)
    started: list[str] = field(default_factory=list)

    @property
    def queries(self) -> dict[str, Any]:
        return {
            name: SimpleNamespace(isActive=error is None, exception=lambda error=error: error)
            for name, error in self.errors.items()
        }

    def start_query(self, name: str) -> None:
        self.started.append(name)


@pytest.mark.parametrize(("error", "started"), [(SLOW, ["archive"]), ("No space left on device", []), (None, [])])
def test_a_query_starts_again_only_after_a_slow_worker(error: str | None, started: list[str]) -> None:
    pipeline, lines = Queries({"sessionize": None, "archive": error}), list[str]()
    restart_slow_workers(cast("Pipeline", pipeline), lines.append)
    assert pipeline.started == started
    assert len(lines) == len(started)


def test_a_query_that_fails_again_and_again_ends_the_job() -> None:
    pipeline = Queries({"archive": SLOW})
    for _ in range(20):
        restart_slow_workers(cast("Pipeline", pipeline), lambda _line: None)
    assert len(pipeline.started) == 5
