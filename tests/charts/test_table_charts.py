"""Charts of tables without rows and of unknown devices, and histograms that Spark counts."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("matplotlib", reason="Matplotlib is not installed: make notebooks installs it")

from matplotlib.figure import Figure

from sessionization.errors import ConfigurationError
from sessionization.notebook import histogram, state_charts, table_charts
from sessionization.notebook.notebook_tables import use_tables
from sessionization.ops.state_reader import StateReader
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.spark.tables.location import TableLocation
from tests.support.settings import settings_of
from tests.support.warehouse import append_sessions, empty_tables

pytestmark = pytest.mark.spark


class EmptyState(StateReader):
    """A state without entries and timers."""

    def sessions(self) -> Any:
        columns = (
            "device_id string, session_id bigint, status string, partition int, opened_at timestamp, since_at timestamp"
        )
        return self.spark.createDataFrame([], columns)

    def timers(self) -> Any:
        return self.spark.createDataFrame([], "grouping_key string, due_at timestamp, partition int")


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_chart_of_a_table_without_rows_shows_a_text(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "an evening"
    empty_tables(spark, TableLocation(folder), owner="nobody")
    use_tables(spark, settings_of(TableLocationSettings, warehouse=folder))
    device = table_charts.busy_device(spark)
    assert device is None
    assert table_charts.device_changes(spark, device).count() == 0
    assert [
        texts(figure)
        for figure in (
            table_charts.concurrent_sessions(spark),
            table_charts.session_lengths(spark),
            table_charts.ends_by_reason(spark),
            table_charts.corrected_ends(spark),
            table_charts.device_timeline(spark, device),
            table_charts.quarantine(spark),
            state_charts.growth(spark),
        )
    ] == [
        ["no rows yet"],
        ["no session has ended yet"],
        ["no rows yet"],
        ["no end was corrected yet"],
        ["no change yet: start the job, and players (the job simulate)"],
        ["nothing is in quarantine"],
        ["no rows yet", "no rows yet"],
    ]
    # A pending End is in the state, and not in the changes.
    assert texts(table_charts.device_timeline(spark, "pc-9")) == ["device pc-9 has no change yet"]


def test_concurrent_sessions_are_those_of_the_last_three_hours_with_a_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    location, now = TableLocation(tmp_path), datetime.now(UTC)
    empty_tables(spark, location, owner="nobody")
    session = spark.newSession()
    use_tables(session, settings_of(TableLocationSettings, warehouse=tmp_path))

    def append(hours_ago: Iterable[tuple[float, float]]) -> None:
        rows = (
            {
                "device_id": f"d{began}", "session_id": number, "platform": "pc", "status": "ended", "revision": 0,
                "started_at": now - timedelta(hours=began), "ended_at": now - timedelta(hours=ended), "updated_at": now,
            }
            for number, (began, ended) in enumerate(hours_ago)
        )  # fmt: skip
        append_sessions(spark, location, rows)

    def title() -> str:
        (axes,) = table_charts.concurrent_sessions(session).axes
        return axes.get_title(loc="left").partition(",")[0]

    append([(26, 25), (24.5, 24.4), (24.5, 24.4)])
    older = set(tmp_path.glob("sessions/*/*.parquet"))
    append([(25, 23.5)])
    assert title() == "Concurrent sessions: at most 3 in a minute", "a day ago two more ran"
    append([(0.9, 0.2), (0.5, 0.1)])
    for file in older:
        file.unlink()
    assert title() == "Concurrent sessions: at most 2 in a minute", "it reads no older sessions"


def test_a_folder_without_tables_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"does not hold session_changes, .*start it first"):
        use_tables(spark, settings_of(TableLocationSettings, warehouse=tmp_path))


def test_a_chart_of_an_empty_state_shows_a_text(spark: SparkSession, tmp_path: Path) -> None:
    state = EmptyState(spark, tmp_path)
    assert state.fullest_device() is None
    found = (state_charts.by_partition(state), state_charts.by_device(state), state_charts.timers(state, 0))
    assert [texts(figure) for figure in found] == [["the state is empty"], ["the state is empty"], ["no timer is set"]]


def test_a_histogram_counts_every_value_once(spark: SparkSession) -> None:
    rows = [(0.0, "a"), (1.0, "a"), (29.9, "b"), (30.0, "b"), (None, "b")]
    counted = histogram.histogram(spark.createDataFrame(rows, "value double, kind string"))
    assert (counted.edges[0], counted.edges[-1], counted.total) == (0.0, 30.0, 4)
    assert [number for number, count in enumerate(counted.counts["a"]) if count] == [0, 1]
    assert counted.counts["b"][-1] == 2, "the highest value is in the last bin"
