"""The entries that the tables give of sessions with signs of life: live, resumed, closed, and closed again."""

import orjson
import pytest
from pyspark.sql import SparkSession

from sessionization.core.events import ChangeKind
from sessionization.core.session_state import Closed, Live, Signs
from sessionization.spark.operator.stored_entries import decode_fields
from sessionization.spark.tables.rollup import fold_by_session, to_session_rows
from sessionization.spark.warm_start.remembered_state import stored_entries
from tests.support.changes import frame
from tests.support.histories import ELEVEN, INACTIVE, MINUTE, NINE, NOW, PC, REPORTED, SUPERSEDED, TEN, ended, started

pytestmark = pytest.mark.spark

RESUMED = started(1, NINE)._replace(kind=ChangeKind.RESUMED, revision=1, duration_ms=None)
IN_ORDER = (started(1, NINE), ended(1, NINE, TEN, INACTIVE), RESUMED, ended(1, NINE, ELEVEN, SUPERSEDED, revision=2))
CORRECTED = ended(1, NINE, TEN, revision=3)


def at(minutes: int) -> int:
    return NOW + minutes * MINUTE


def test_the_tables_give_back_what_the_state_remembers(spark: SparkSession) -> None:
    """The processing times of a session's changes are a minute apart. The device is how many of them there are."""
    changes = [
        (str(count), change._replace(processed_ms=at(minutes)))
        for count in range(1, 6)
        for minutes, change in enumerate((*IN_ORDER, CORRECTED)[:count])
    ]
    rows = frame(spark, changes)
    sessions = to_session_rows(fold_by_session(rows))
    found = {}
    for row in stored_entries(sessions, rows, has_activity=True).collect():
        fields = orjson.loads(row.text)
        found[row.device_id] = decode_fields(fields)
    common = None, PC
    assert found == {
        "1": Live(NINE, at(0), *common, signs=Signs(NINE, at(0))),
        "2": Closed(NINE, TEN, INACTIVE, 0, None, *common, at(1), 0, opened_ms=at(1)),
        "3": Live(NINE, at(2), *common, signs=Signs(NINE, at(2), revision=2)),
        "4": Closed(NINE, ELEVEN, SUPERSEDED, 2, None, *common, at(3), 0, opened_ms=at(3)),
        "5": Closed(NINE, TEN, REPORTED, 3, None, *common, at(3), 0, opened_ms=at(3)),
    }
    without = stored_entries(sessions.where("device_id < '3'"), rows.where("device_id < '3'")).collect()
    entries = {row.device_id: decode_fields(orjson.loads(row.text)) for row in without}
    assert entries == {
        "1": Live(NINE, at(0), *common),
        "2": Closed(NINE, TEN, INACTIVE, 0, None, *common, at(1), 0),
    }
