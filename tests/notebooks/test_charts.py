"""The charts of the notebooks: of handmade rows, of the sample evening, and of tables without rows."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlflow", reason="Matplotlib and MLflow are not installed: make notebooks installs them")

import matplotlib.pyplot as plt
import pandas as pd
from pyspark.sql import SparkSession

from sessionization.core.events import Activity, EndReason, Platform, Start
from sessionization.notebook import sample_evening, tour
from sessionization.notebook.charts import draw_sessions
from sessionization.ops.state_reader import StateReader
from sessionization.players.players_job import create_player_tables
from sessionization.spark.tables.location import TableLocation
from sessionization_laptop import laptop_notebook
from sessionization_simulator.dirt import DirtKind
from sessionization_simulator.malformed import possible_dirt
from tests.notebooks.workspace_cells import run_notebook
from tests.support.headless import ROOT, SHOWN
from tests.support.notebook_cells import read_cells
from tests.support.warehouse import empty_tables
from tests.support.wire import REASONS
from tools.sample_evening import make

pytestmark = pytest.mark.job


def test_the_chart_of_sessions_has_a_bar_for_each_with_what_happened_to_it() -> None:
    changes, messages = tour.through_core()
    live = changes[(changes["session_id"] != 1) | (changes["change"] != "ended")]
    draw_sessions(live, messages)
    axes = plt.gca()
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "console-1, session 1", "pc-2, session 2", "pc-2, session 3", "console-3, session 5", "pc-4, session 4",
        "pc-5, session 6",
    ]  # fmt: skip
    assert len(axes.collections) == 5, "an orphaned End has no bar"
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {
        "live", "reported", "timed_out", "orphaned", "heartbeat", "end before its correction",
        "Start comes", "End comes",
    }  # fmt: skip
    plt.close("all")


def test_the_chart_shows_signs_of_life_and_a_session_that_went_on_as_live() -> None:
    ping = partial(Activity, 1, platform=Platform.PC)
    start = Start(1, 0, Platform.PC, 0)
    events = {"on": [start, ping(at_ms=9_000, ingested_ms=9_000)], "off": [start]}
    changes = pd.DataFrame(tour.replay_devices(events, replace(tour.RULES, inactivity_timeout_ms=5_000), 12_000))
    for name in ("processed", "started", "ended", "due"):
        changes[f"{name}_at"] = pd.to_datetime(changes[f"{name}_ms"], unit="ms")
    assert changes["change"].value_counts()["resumed"] == 1
    came = pd.DataFrame(
        {"device_id": ["on"], "session_id": [1], "is_start": [None], "ingested_at": [pd.Timestamp(9e9)]}
    )
    draw_sessions(changes, came)
    assert {text.get_text() for text in plt.gca().get_legend().get_texts()} == {
        "live", "inactive", "heartbeat", "end before its correction", "sign comes",
    }  # fmt: skip
    plt.close("all")


def test_the_sessions_of_the_tour_end_as_its_notebook_says() -> None:
    changes, _ = tour.through_core()
    assert tour.last_ends(changes).to_dict() == {
        ("console-1", 1): "reported",
        ("console-3", 5): "timed_out",
        ("pc-2", 2): "reported",
        ("pc-2", 3): "timed_out",
        ("pc-4", 4): "reported",
        ("pc-5", 6): "orphaned",
    }
    corrected = changes[(changes["session_id"] == 2) & (changes["change"] == "ended")]
    assert corrected["revision"].tolist() == [0, 1]
    assert set(changes[changes["change"] == "heartbeat"]["device_id"]) == {"console-1", "pc-2", "console-3"}


@pytest.mark.parametrize("name", ["03_query_sessions", "04_inspect_state", "05_compare_runs", "07_players"])
def test_a_notebook_over_tables_without_rows_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = tmp_path / "an evening"
    location = empty_tables(spark, TableLocation(folder), owner="nobody")
    if name == "07_players":
        create_player_tables(spark, location)
    sessions = (
        "device_id string, session_id bigint, status string, partition int, opened_at timestamp, since_at timestamp, "
        "started_at timestamp"
    )
    timers = "grouping_key string, due_at timestamp, partition int"
    monkeypatch.setattr(StateReader, "sessions", lambda self: self.spark.createDataFrame([], sessions))
    monkeypatch.setattr(StateReader, "timers", lambda self: self.spark.createDataFrame([], timers))
    monkeypatch.setattr(laptop_notebook, "set_up", lambda **_: None)
    given = {"warehouse": str(folder), "checkpoints": str(folder), "stores": f"sqlite:///{tmp_path / 'none.db'}"}
    shown = run_notebook(name, spark, given)
    assert (shown["Figure"], shown["table"]) == (0, 0)
    said = capsys.readouterr().out
    assert said.count("no rows yet") + said.count("no change yet") >= SHOWN[name][0]


def test_the_file_of_the_sample_is_what_the_simulator_makes() -> None:
    assert sample_evening.read_sample() == make()


def test_the_sample_has_every_kind_of_dirt_and_each_has_its_effect(spark: SparkSession) -> None:
    said = sample_evening.open_sample(spark)
    assert said == "2,392 messages from 20:00 to 21:59 UTC, 90 devices, 448 sessions"
    ends = spark.sql("SELECT end_reason, count(*) AS n FROM sessions GROUP BY 1").collect()
    assert {row.end_reason for row in ends} == set(EndReason) - {EndReason.TIMED_OUT}
    query = next(cell.source for cell in read_cells(ROOT / "notebooks" / "01_tour.ipynb") if cell.magic == "%sql")
    effects: dict[str, Any] = {}
    for row in spark.sql(query).collect():
        effects.setdefault(row.dirt, {})[row.effect] = row.messages
    assert effects.keys() == {*possible_dirt(sample_evening.sample_map(), has_pings=True)} - {
        DirtKind.LOST_START, DirtKind.LOST_END,
    }  # fmt: skip
    assert effects["repeat"] == {"none": 29}
    assert effects["end_before_start"] == {
        "reported (correction), started": 6, "reported, started, superseded": 1, "started": 1,
    }  # fmt: skip
    assert effects["crash"] == {"inactive": 18, "none": 6}
    assert effects["offline"] == {"started": 63, "resumed": 25, "none": 16}
    assert effects["overlap"] == {"started, superseded": 3}
    assert effects["late_end"] == {"reported": 2, "reported (correction)": 1}
    assert all(list(effects[reason]) == [f"in quarantine: {reason}"] for reason in REASONS)
