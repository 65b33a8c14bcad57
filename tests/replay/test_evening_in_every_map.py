"""One seeded evening in the words of each map of the package: the same sessions, apart from ids and platforms.

The job's own parser, replay and fold make the sessions. Platforms differ, because the maps have other ones.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.replay.archived_events import read_events, replayed_changes
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock
from sessionization.spark.tables.rollup import fold_by_session, to_session_rows
from sessionization_simulator.dirt import DirtKind
from sessionization_simulator.malformed import possible_dirt
from sessionization_simulator.message_form import Form
from tests.support.evening import ENDS_MS, Evening
from tests.support.event_maps import PACKAGE
from tests.support.harness import RULES
from tests.support.wire_cases import LIMITS

pytestmark = pytest.mark.spark

PLAYED = {"rate": 8, "duration": "180s", "session_length": "40s", "devices": 260, "file_interval": "2s", "dirt": 0.5}
KINDS_OF_DIRT = sorted(
    set.intersection(*(set(possible_dirt(package_map(name))) for name in PACKAGE)) - {DirtKind.ODD_OPTIONAL}
)
"""What can happen to the messages of every map; of the optional fields each map has other ones."""
COMPARED = ("device_id", "session_id", "status", "started_at", "ended_at", "duration_ms", "end_reason", "revision",
            "updated_at")  # fmt: skip


@pytest.fixture(scope="module")
def evenings(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """By map the rows of `sessions`."""
    return {name: sessions(spark, tmp_path_factory.mktemp(name), name) for name in PACKAGE}


def sessions(spark: SparkSession, folder: Path, name: str) -> list[Row]:
    Evening(folder, seed=5, events=name, dirt_kinds=KINDS_OF_DIRT, **PLAYED)
    rows = [
        (file.parent.name, datetime.fromtimestamp(file.stat().st_mtime_ns // 1_000_000 / 1_000, UTC), line)
        for file in folder.glob("*/*.json")
        for line in file.read_bytes().splitlines()
    ]
    messages = spark.createDataFrame(rows, "stream string, ingested_at timestamp, value binary")
    events = package_map(name)
    clock, layout = MicroBatchClock(until_ms=ENDS_MS + 120_000), StateLayout(has_text_ids=events.has_text_ids)
    changes = replayed_changes(read_events(messages, LIMITS, events), clock, RULES, layout, partitions=2)
    return to_session_rows(fold_by_session(changes)).collect()


@pytest.mark.parametrize("name", PACKAGE)
def test_an_evening_becomes_the_same_sessions_in_every_map(evenings: dict[str, list[Row]], name: str) -> None:
    events = package_map(name)
    [form, *_] = (Form.of(events, stream) for stream in events.stream_names)
    columns = [*COMPARED, *(["foreground_s"] if events.foreground_s is not None else [])]

    def compared(rows: list[Row]) -> list[tuple[str, ...]]:
        return sorted(tuple(str(row[column]) for column in columns) for row in rows)

    of_default = evenings[DEFAULT]
    assert len(of_default) > 300
    assert {row.end_reason for row in of_default} == {"reported", "superseded", "timed_out", "orphaned"}
    renamed = [Row(**row.asDict() | {"session_id": _session_id(form, row.session_id)}) for row in of_default]
    assert compared(evenings[name]) == compared(renamed)


def _session_id(form: Form, number: int) -> object:
    [session_id] = form.session(number).values()
    return session_id
