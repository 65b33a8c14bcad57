"""The sample: a fixed evening of a small studio with every kind of dirt, and its tables as views for SQL and charts.

`python -m tools.sample_evening` has made the file.
"""

import gzip
import json
from collections import defaultdict
from importlib.resources import files
from typing import Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc
from sessionization.core.events import Event
from sessionization.core.session_state import Rules
from sessionization.durations import HOUR_MS, MINUTE_MS
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import PLAYSTATION, package_map
from sessionization.notebook.tour import replay_devices
from sessionization.settings.rule_settings import RuleSettings
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.parse import parse, valid_events
from sessionization.spark.operator.event_text import pack_event, unpack_event
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA, labels_text
from sessionization.spark.output.sinks import to_session_changes
from sessionization.spark.tables import rollup
from sessionization.spark.tables.view_sql import session_view_sql

FILE_NAME: Final = "sample_evening.jsonl.gz"
RULES: Final = Rules(inactivity_timeout_ms=10 * MINUTE_MS)
"""The defaults, and an inactivity timeout: this studio's clients send a ping each three minutes."""


class SampleMessage(NamedTuple):
    """A message as the job would get it, and what the simulator did to it (a `DirtKind`), which no job can know."""

    stream: str
    ingested_ms: int
    dirt: str | None
    value: bytes


def sample_map() -> EventMap:
    """What the messages mean: the map `playstation`, with the ping."""
    events = package_map(PLAYSTATION)
    kinds = events.kinds.model_copy(update={"activity": ("ApplicationSessionPing",)})
    return events.model_copy(update={"kinds": kinds})


def read_sample() -> list[SampleMessage]:
    """The messages of the sample, in the order of their arrival."""
    content = (files("sessionization.notebook") / FILE_NAME).read_bytes()
    lines = map(json.loads, gzip.decompress(content).splitlines())
    return [SampleMessage(**line | {"value": line["value"].encode("utf-8", "surrogateescape")}) for line in lines]


def open_sample(spark: SparkSession) -> str:
    """Send the sample through the job's parser and rules, in simulated time, and make views of its tables.

    They are `messages` (each message, its `dirt`, and its quarantine `reason` if any), `session_changes`,
    `sessions`, `device_timeline`, `concurrent_sessions` and `recent_concurrent_sessions` of this Spark session, with
    the columns of the tables and views of these names. It writes no file.

    Returns:
        What the sample holds, in one line.
    """
    sample = read_sample()
    rows = [(message.stream, utc(message.ingested_ms), message.dirt, message.value) for message in sample]
    schema = "stream string, ingested_at timestamp, dirt string, value binary"
    event_map, limits = sample_map(), RuleSettings().of_event_times
    labels = event_map.label_columns()
    layout = StateLayout(labels=labels)
    messages = parse(spark.createDataFrame(rows, schema), limits, event_map, labels, has_activity=True)
    events: defaultdict[str, list[Event]] = defaultdict(list)
    for row in valid_events(messages).select(pack_event(layout).alias("event")).collect():
        device_id, event = unpack_event(row.event, layout)
        events[device_id].append(event)
    until_ms = sample[-1].ingested_ms + HOUR_MS
    changes = replay_devices(events, RULES, until_ms)
    as_output = (change | {"labels": labels_text(change["labels"])} for change in changes)
    output = [tuple(map(change.get, OUTPUT_SCHEMA.names)) for change in as_output]
    session_changes = to_session_changes(spark.createDataFrame(output, OUTPUT_SCHEMA), labels)
    columns = ("stream", "ingested_at", "device_id", "session_id", "is_start", "dirt", "reason")
    messages.select(*columns, F.make_valid_utf8("value").alias("value")).createOrReplaceTempView("messages")
    session_changes.createOrReplaceTempView("session_changes")
    sessions = rollup.to_session_rows(rollup.fold_by_session(session_changes, labels))
    sessions.createOrReplaceTempView("sessions")
    for view in ("device_timeline", "concurrent_sessions", "recent_concurrent_sessions"):
        spark.sql(session_view_sql(view, labels=labels))
    count = len({(change["device_id"], change["session_id"]) for change in changes})
    span = " to ".join(f"{utc(message.ingested_ms):%H:%M}" for message in (sample[0], sample[-1]))
    return f"{len(sample):,} messages from {span} UTC, {len(events)} devices, {count:,} sessions"
