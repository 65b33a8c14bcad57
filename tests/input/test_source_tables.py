"""Rows of Delta tables become messages that the parser reads as any other; what is done to a table has its line."""

from collections.abc import Mapping
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from sessionization.errors import ConfigurationError
from sessionization.event_map.model import EventMap
from sessionization.message_limits import EventTimeLimits
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.input.parse import parse
from sessionization.spark.input.source_tables import (
    as_messages,
    check_source_tables,
    remedy_for_tables,
    versions_read,
)
from tests.support.event_maps import map_of
from tests.support.settings import settings_of

AT, AT_MS = "TIMESTAMP '2026-11-21 12:00:00.250999'", 1_795_262_400_250
COLUMNS = """
version: 1
streams:
  games: {platform: {path: Device.os, values: {PS5: console}}, table: FOLDER}
device_id: Device."hw.id"
session_id: sid
session_id_type: TYPE
event: kind
kinds: {start: [open], end: [close]}
event_time: {path: at, format: FORMAT}
account_id: props.user
foreground_s: {path: fg, unit: s}
title: game
ingested_at: landed
"""
ROW = {
    "device": "named_struct('hw.id', 'h1', 'os', 'PS5', 'unused', array(1))",
    "sid": "7L",
    "kind": "'open'",
    "at": AT,
    "props": "map('user', 'ann', 'other', 'x')",
    "fg": "5",
    "game": "'chess'",
    "landed": AT,
    "extra": "INTERVAL 1 DAY",
}
IN_TABLE = {  # what replaces columns of the row, the type of session ids, the format of times, and what is expected
    "a map, and names in another case": ({}, "integer", "iso8601", {"device_id": "h1", "account_id": "ann"}),
    "a title": ({}, "integer", "iso8601", {"labels": ["chess"]}),
    "a timestamp": ({}, "integer", "iso8601", {"event_ms": AT_MS}),
    "a timestamp without zone": (
        {"at": "TIMESTAMP_NTZ '2026-11-21 12:00:00'"}, "integer", "iso8601", "missing_event_time",
    ),
    "a timestamp read as a number": ({}, "integer", "epoch_ms", "missing_event_time"),
    "a date": ({"at": "DATE '2026-11-21'"}, "integer", "iso8601", "missing_event_time"),
    "text": ({"at": "'2026-11-21T12:00:00.250Z'"}, "integer", "iso8601", {"event_ms": AT_MS}),
    "milliseconds": ({"at": f"{AT_MS}L"}, "integer", "epoch_ms", {"event_ms": AT_MS}),
    "seconds as a decimal": ({"at": "1795262400.2509BD"}, "integer", "epoch_s", {"event_ms": AT_MS}),
    "seconds as a double": ({"at": "1795262400.25D"}, "integer", "epoch_s", {"event_ms": AT_MS}),
    "seconds that are no number": ({"at": "double('NaN')"}, "integer", "epoch_s", "missing_event_time"),
    "a decimal as session id": ({"sid": "CAST(7 AS DECIMAL(20,0))"}, "integer", "iso8601", {"session_id": 7}),
    "a decimal with a fraction": ({"sid": "7.0BD"}, "integer", "iso8601", "missing_session_id"),
    "a double as session id": ({"sid": "7D"}, "integer", "iso8601", "missing_session_id"),
    "text as session id": ({"sid": "'a-1'"}, "text", "iso8601", {"session_id": "a-1"}),
    "a number as a text id": ({"sid": "7S"}, "text", "iso8601", {"session_id": "7"}),
    "no session id": ({"sid": "CAST(NULL AS BIGINT)"}, "integer", "iso8601", "missing_session_id"),
    "no device": (
        {"device": "CAST(NULL AS STRUCT<`hw.id`: STRING, os: STRING>)"}, "integer", "iso8601", "missing_device_id",
    ),
    "a variant below a path": (
        {"device": """parse_json('{"hw.id": "v1", "os": "PS5"}')"""}, "integer", "iso8601", {"device_id": "v1"},
    ),
    "a list": (
        {"device": "array(named_struct('hw.id', 'h1', 'os', 'PS5'))"}, "integer", "iso8601", "missing_device_id",
    ),
    "binary": ({"kind": "CAST('open' AS BINARY)"}, "integer", "iso8601", "unknown_event"),
    "a long number in text": ({"fg": "'5'", "kind": "'close'"}, "integer", "iso8601", {"foreground_s": None}),
    "an end": ({"kind": "'close'"}, "integer", "iso8601", {"foreground_s": 5, "is_start": False}),
    "a row over 64 KiB": ({"kind": "repeat('x', 65536)"}, "integer", "iso8601", "oversized"),
    "no ingest time": ({"landed": "CAST(NULL AS TIMESTAMP)"}, "integer", "iso8601", {"ingested_ms": None}),
}  # fmt: skip


def columns_map(type_: str = "integer", format_: str = "iso8601", folder: object = "t") -> EventMap:
    return map_of(COLUMNS.replace("TYPE", type_).replace("FORMAT", format_).replace("FOLDER", str(folder)))


def row_of(spark: SparkSession, columns: dict[str, str]) -> DataFrame:
    return spark.sql(f"SELECT {', '.join(f'{value} AS {name}' for name, value in columns.items())}")


def parsed(messages: Mapping[str, DataFrame], events: EventMap) -> dict[str, Row]:
    """The parsed messages by name: one query for all."""
    named = [message.withColumn("file", F.lit(name)) for name, message in messages.items()]
    rows = parse(
        reduce(DataFrame.union, named), EventTimeLimits(600_000, 604_800_000), events, events.label_columns()
    ).collect()
    return {row.file: row for row in rows}


@pytest.mark.spark
def test_a_row_is_read_by_the_paths_of_the_map(spark: SparkSession) -> None:
    kinds = {(type_, format_) for _, type_, format_, _ in IN_TABLE.values()}
    for kind in kinds:
        events = columns_map(*kind)
        cases = {name: case for name, case in IN_TABLE.items() if case[1:3] == kind}
        messages = {
            name: as_messages(row_of(spark, ROW | columns), "games", events) for name, (columns, *_) in cases.items()
        }
        found = parsed(messages, events)
        for name, (*_, expected) in cases.items():
            row = found[name]
            if isinstance(expected, str):
                assert row.reason == expected, name
            else:
                assert (row.reason, {key: row[key] for key in expected}) == (None, expected), name


IN_VALUE = """
version: 1
streams: {games: {platform: pc, table: FOLDER, value: payload.body, ingested_at: landed}}
device_id: d.id
session_id: sid
event: kind
kinds: {start: [open], end: [close]}
event_time: {path: at, format: epoch_ms}
"""
MESSAGE = f'{{"d":{{"id":"h1"}},"sid":7,"kind":"open","at":{AT_MS}}}'


@pytest.mark.spark
def test_a_column_of_text_bytes_or_variant_holds_messages(spark: SparkSession) -> None:
    events = map_of(IN_VALUE)
    values = {
        f"'{MESSAGE}'": (MESSAGE.encode(), None),
        f"CAST('{MESSAGE}' AS BINARY)": (MESSAGE.encode(), None),
        f"parse_json('{MESSAGE}')": (None, None),
        "CAST(NULL AS STRING)": (None, "malformed_json"),
        "X'ff'": (b"\xff", "malformed_json"),
        "CAST(X'ff' AS STRING)": (b"\xff", "malformed_json"),
        "parse_json('[1]')": (b"[1]", "malformed_json"),
    }
    rows = {value: row_of(spark, {"payload": f"named_struct('body', {value})", "landed": AT}) for value in values}
    found = parsed({value: as_messages(row, "games", events) for value, row in rows.items()}, events)
    for value, (kept, reason) in values.items():
        row = found[value]
        assert row.reason == reason, value
        assert row.value is None or kept in {None, bytes(row.value)}, value
        assert (row.stream, row.partition, row.offset) == ("games", None, None)
        assert reason or (row.device_id, row.session_id, row.event_ms) == ("h1", 7, AT_MS)


def table_settings(folder: Path, text: str = COLUMNS, **options: object) -> SessionizeSettings:
    file = folder / "my.yml"
    written = text.replace("TYPE", "integer").replace("FORMAT", "iso8601").replace("FOLDER", str(folder / "bronze"))
    file.write_text(written)
    places = {"warehouse": folder / "w", "checkpoints": folder / "c", "events": str(file), "source": "table"}
    return settings_of(SessionizeSettings, places | options)


@pytest.mark.spark
def test_a_table_that_does_not_fit_the_map_is_refused_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    def refusal(text: str = COLUMNS, **columns: str) -> str:
        bronze = tmp_path / "bronze"
        if columns:
            write = row_of(spark, {name: value for name, value in (ROW | columns).items() if value})
            write.drop("extra").write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
                str(bronze)
            )
        with pytest.raises(
            ConfigurationError, match=f"^--events {tmp_path}/my.yml: streams.games.table {bronze} "
        ) as error:
            check_source_tables(spark, table_settings(tmp_path, text))
        assert "\n" not in str(error.value)
        return str(error.value).partition(f"{bronze} ")[2]

    assert refusal().startswith("cannot be read as a stream: [DELTA_SCHEMA_NOT_SET]")
    assert refusal(sid="", fg="") == "has no sid, fg: there are device, kind, at, props, game, landed"
    assert refusal(device="named_struct('id', 1)").startswith('has no Device."hw.id", Device.os: there are device, sid')
    assert refusal(landed="1").startswith("has no timestamp in landed: ingested_at needs a column of type TIMESTAMP")
    payload = {"payload": "named_struct('body', 1)"}
    assert refusal(IN_VALUE, **payload).startswith("has no messages in payload.body: value needs a column of type STRI")
    check_source_tables(spark, table_settings(tmp_path))


CAUSES = {
    "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update": "start once with --accept-data-loss",
    "[DELTA_SOURCE_IGNORE_DELETE] Detected deleted data": "start once with --accept-data-loss",
    "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change": "correct --events, and begin a new --checkpoints",
    "[DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG] Streaming": "a column of a source table was dropped",
    "[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming": "a source table was dropped, or made anew",
    "File file:/data/bronze/_delta_log does not exist": "a source table was dropped, or made anew",
    "[DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE] If you": "history was deleted before it was read: begin a new",
    "java.io.FileNotFoundException: File file:/data/part-0.parquet does not exist": "history was deleted before it was",
    "the state cannot be loaded: java.io.FileNotFoundException: File 1.changelog": None,
    "java.lang.OutOfMemoryError": None,
}


def test_what_was_done_to_a_table_has_a_line_with_the_way_out(tmp_path: Path) -> None:
    settings = table_settings(tmp_path)
    for cause, advice in CAUSES.items():
        found = remedy_for_tables(settings, [f"query sessionize stopped: {cause}"])
        assert found is None if advice is None else advice in (found or ""), cause
    files = settings_of(SessionizeSettings, input="in", warehouse="w", checkpoints="c")
    assert remedy_for_tables(files, CAUSES) is None


def test_the_condition_of_an_erasure_in_the_source_is_not_quoted() -> None:
    text = (
        "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update (for example DELETE (Map(predicate -> "
        '"[\\"((user#1 = ann) OR (x#2 = 1))\\"]"))) in the source table at version 6. This is not supported.\nQuery'
    )
    assert root_cause(text) == (
        "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update in the source table at version 6. "
        "This is not supported."
    )


def test_the_version_that_a_micro_batch_reached_is_that_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    place = '{{"reservoirVersion":{},"index":{},"isStartingVersion":{}}}'
    sources = (place.format(3, 0, "true"), place.format(9, -1, "false"), "-", "0")
    (tmp_path / "offsets" / "4").write_text("\n".join(("v1", '{"batchTimestampMs":1}', *sources)))
    assert versions_read(tmp_path, 4, streams=["a", "b", "c"]) == {"a": -1, "b": 8, "c": -1}
