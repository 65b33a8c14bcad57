"""The demo's live view, fed with micro-batches and rows, as a terminal of 80 columns shows it."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row
from rich.console import Console

from sessionization.core.events import EndReason
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.output.progress import BatchProgress, Percentiles
from sessionization_laptop.demo_view import HOW_IT_ENDED, WIDTH, DemoView, sparkline

UNKNOWN = Percentiles(None, None, None)


def change(kind: str, session_id: int, platform: str = "pc", **fields: object) -> Row:
    given = {"device_id": f"device-{session_id}-of-a-long-name", "session_id": session_id, "platform": platform}
    at = datetime(2026, 1, 1, 20, 0, 5, tzinfo=UTC)
    return Row(
        **given, change=kind, **{"end_reason": None, "revision": 0, "duration_ms": None, "processed_at": at} | fields
    )


def micro_batch(query: str = SESSIONIZE, late_ms: int | None = None, **counts: Any) -> BatchProgress:
    lateness = Percentiles(late_ms, late_ms, late_ms)
    return BatchProgress(query, 1, 0, 10, 100, UNKNOWN, lateness, **counts)


def shown(view: DemoView) -> str:
    console = Console(width=WIDTH, file=io.StringIO(), record=True)
    console.print(view)
    return console.export_text()


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([0, 0], "▁▁"), ([0, 7], "▁█"), ([1, 2, 4, 8], "▁▂▄█"), ([3.5], "█")],
    ids=["nothing", "only zeros", "two", "doubling", "one"],
)
def test_a_sparkline_has_a_bar_for_each_value(values: list[float], bars: str) -> None:
    assert sparkline(values) == bars


def test_a_session_is_live_from_its_first_row_until_its_end() -> None:
    view = DemoView()
    view.show([change("started", 1), change("heartbeat", 2, "console"), change("started", 3)], [])
    view.show([change("heartbeat", 1), change("ended", 3, end_reason="reported", duration_ms=61_400)], [])
    text = shown(view)
    assert "pc     1 ██████" in text
    assert "console     1 ██████" in text
    assert HOW_IT_ENDED[EndReason.REPORTED] in text
    assert "61 s" in text


def test_the_newest_end_of_each_kind_stays_shown_while_others_go_on() -> None:
    view = DemoView()
    kinds = [(0, "timed_out", 0), (1, "superseded", 0), (2, "reported", 1), (3, "superseded", 0)]
    view.show([change("ended", number, end_reason=how, revision=of) for number, how, of in kinds], [])
    view.show([change("ended", number, end_reason="reported") for number in range(4, 9)], [])
    lines = shown(view).splitlines()
    found = [line.split("device-")[1][0] for line in lines if "device-" in line]
    assert found == ["8", "7", "3", "2", "0"]
    [corrected] = [line for line in lines if "device-2" in line]
    assert corrected.rstrip().endswith("corrected: reported")


def test_lateness_is_the_last_one_with_a_bar_for_each_micro_batch() -> None:
    view = DemoView()
    assert "none was due yet" in shown(view)
    for late_ms in (8_000, 1_000, None, 4_000):
        view.add(micro_batch(late_ms=late_ms))
    assert "p99 late by 4.0 s" in shown(view)
    assert "lateness       █▁▄  (" in shown(view)


def test_the_view_fits_80_columns_and_explains_every_reason() -> None:
    view = DemoView()
    view.notes.append("a note of the job")
    for late_ms in range(40):
        view.add(micro_batch(late_ms=late_ms * 1_000, heartbeats=1_000_000))
    ends = [change("ended", number, "console", end_reason=reason) for number, reason in enumerate(EndReason)]
    rows = [*ends, *(change("started", number) for number in range(10, 1_000))]
    view.show(rows, [(f"reason_number_{number}", 100 - number) for number in range(9)])
    text = shown(view)
    assert max(map(len, text.splitlines())) <= WIDTH
    for reason in EndReason:
        assert HOW_IT_ENDED[reason] in text
    assert "864 messages refused, kept in quarantine: reason_number_0 100," in " ".join(text.split())
    assert "5 more reasons" in " ".join(text.split())


def test_the_picture_loads_no_font() -> None:
    picture = DemoView().picture()
    assert picture.startswith("<svg")
    assert "font-face" not in picture
