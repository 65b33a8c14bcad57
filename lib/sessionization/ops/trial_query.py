"""Checks that a query with the job's operator runs: a session opens, beats, and is read back from the state."""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.durations import DAY_MS
from sessionization.errors import StreamError
from sessionization.files import write_atomically
from sessionization.hadoop_path import AnyPath
from sessionization.job.shutdown import stop_query, wait_until_idle
from sessionization.ops.state_reader import StateReader
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.checkpoint.take_log import TAKES_FOLDER
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.input.file_taker import FileTaker
from sessionization.spark.input.parse import START_EVENT, EventTimeLimits, parse, valid_events
from sessionization.spark.input.source import file_messages
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.pipeline import session_changes
from sessionization.streams import PC_STREAM

_DEVICE = "preflight"
_HEARTBEAT_MS = 1_000
_BEATS_WITHIN_S = 180
_STOP_S = 30
_POLL_S = 0.2


def check_trial_query(spark: SparkSession, folder: AnyPath, say: Say) -> str:
    """Open a session, wait until its timer has made a heartbeat, and read it back from the state.

    The query has the name of `folder`, which holds its input and its checkpoint.

    Raises `StreamError` where the query fails or makes no heartbeat, and the errors of `StateReader`.
    """
    began_s = time.monotonic()
    _write_start(folder / "input" / PC_STREAM)
    beats = 0

    def count_beats(batch: DataFrame, _batch_id: int) -> None:
        nonlocal beats
        beats += batch.where(F.col("change") == "heartbeat").count()

    input_folder, log_folder = folder / "input", folder / TAKES_FOLDER
    taking: AbstractContextManager[None] = nullcontext()
    if isinstance(input_folder, Path):
        taking = FileTaker(input_folder, log_folder, 1).running(_HEARTBEAT_MS)
    events = valid_events(parse(file_messages(spark, input_folder, log_folder), EventTimeLimits(DAY_MS, DAY_MS)))
    rules = RulesInForce(Rules(heartbeat_ms=_HEARTBEAT_MS))
    changes = session_changes(events, tick_stream(spark), StateLayout(), rules)
    with taking:
        query = (
            changes.writeStream.foreachBatch(count_beats)
            .queryName(folder.name)
            .option("checkpointLocation", str((folder / SESSIONIZE).absolute()))
            .trigger(processingTime="1 second")  # ticks would make it run without a pause
            .start()
        )
        while query.isActive and beats == 0 and time.monotonic() < began_s + _BEATS_WITHIN_S:
            time.sleep(_POLL_S)
    cause = query.exception()
    wait_until_idle(query, time.monotonic() + _STOP_S)
    stop_query(query, say)
    if cause is not None or beats == 0:
        why = f"no heartbeat within {_BEATS_WITHIN_S} s" if cause is None else root_cause(str(cause))
        msg = f"the trial query failed ({why}): fix the cause; without a heartbeat free some cores"
        raise StreamError(msg)
    [entry] = StateReader(spark, folder).sessions().collect()
    return f"a timer fired after {time.monotonic() - began_s:.0f} s; the state has the {entry.status} session"


def _write_start(folder: AnyPath) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(wall_clock_ms() // 1_000))
    message = {"appSessionId": 1, "eventId": START_EVENT, "hostPcId": _DEVICE, "timestamp": at}
    write_atomically(folder / "start.json", json.dumps(message) + "\n")
