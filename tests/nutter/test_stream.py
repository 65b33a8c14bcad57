# Databricks notebook source
# MAGIC %md
# MAGIC Tests of the stream in a schema of its own, which is dropped afterwards: the stream starts and stops, a session
# MAGIC starts, beats and ends, and a replay changes nothing. Run it by `nutter run ".../tests/nutter/*" CLUSTER_ID`, or
# MAGIC by the job `workspace_tests` of the bundle.

# COMMAND ----------

# MAGIC %run ./proof

# COMMAND ----------

# MAGIC %run ./trial

# COMMAND ----------

from sessionization.command_line.widgets import make_job_run_id_widget, make_widgets

make_widgets(TrialSettings, dbutils.widgets)
make_job_run_id_widget(dbutils.widgets)

# COMMAND ----------

from itertools import pairwise

from pyspark.testing.utils import assertDataFrameEqual

from sessionization.clock import wall_clock_ms
from sessionization.command_line.widgets import read_widgets
from sessionization.notebook.tour import Message
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS, STREAM_PROGRESS

SHORT_RUN, LONG_RUN = "8s", "12s"

# COMMAND ----------


class StreamFixture(NutterFixture):
    """Numbers order the tests: each continues with the stream as the previous test left it."""

    def before_all(self):
        self.trial = TrialStream(spark, dbutils.notebook.run, read_widgets(TrialSettings, dbutils.widgets))
        self.trial.begin()
        began_ms = wall_clock_ms()
        self.starts = [Message("trial-1", 1, True, began_ms - 60_000), Message("trial-2", 2, True, began_ms - 50_000)]
        self.end = Message("trial-1", 1, False, began_ms - 10_000)

    def after_all(self):
        self.trial.end()

    def run_1_starts_and_stops(self):
        self.trial.send(*self.starts)
        self.trial.run(LONG_RUN)

    def assertion_1_starts_and_stops(self):
        assert [query.name for query in spark.streams.active] == []
        queries = self.trial.read(STREAM_PROGRESS).select("query").distinct()
        assertDataFrameEqual(
            queries, spark.createDataFrame([("archive",), ("rollup",), ("sessionize",)], "query string")
        )

    def run_2_session_opens(self):
        self.live = self.trial.read(SESSIONS).where("status = 'live'").select("device_id", "session_id", "platform")

    def assertion_2_session_opens(self):
        rows = [("trial-1", 1, "pc"), ("trial-2", 2, "pc")]
        assertDataFrameEqual(
            self.live, spark.createDataFrame(rows, "device_id string, session_id bigint, platform string")
        )

    def run_3_session_beats(self):
        beats = self.trial.read(SESSION_CHANGES).where("change = 'heartbeat'")
        self.beats = beats.selectExpr("session_id", "unix_millis(due_at) AS due_ms", "beat").collect()

    def assertion_3_session_beats(self):
        step_ms = int(HEARTBEAT.removesuffix("s")) * 1_000
        for session_id in (1, 2):
            beats = sorted((row.due_ms, row.beat) for row in self.beats if row.session_id == session_id)
            # On a slow machine one heartbeat stands for several due instants; `beat` counts all of them.
            assert max((beat for _, beat in beats), default=0) >= 2, f"session {session_id} has the heartbeats {beats}"
            for (sooner_ms, fewer), (later_ms, more) in pairwise(beats):
                assert later_ms - sooner_ms == (more - fewer) * step_ms, beats

    def run_4_session_ends(self):
        self.trial.send(self.end)
        self.trial.run(SHORT_RUN)

    def assertion_4_session_ends(self):
        ended = self.trial.read(SESSIONS).where("status = 'ended'")
        ended = ended.selectExpr(
            "session_id", "end_reason", "unix_millis(ended_at) AS ended_ms", "duration_ms", "revision"
        )
        expected = spark.createDataFrame(
            [(1, "reported", self.end.at_ms, 50_000, 0)],
            "session_id bigint, end_reason string, ended_ms bigint, duration_ms bigint, revision int",
        )
        assertDataFrameEqual(ended, expected)

    def run_5_replay_changes_nothing(self):
        self.changes_before = spark.createDataFrame(self.trial.changes().collect(), SESSION_CHANGES.schema)
        self.sessions_before = spark.createDataFrame(self.trial.read(SESSIONS).collect(), SESSIONS.schema)
        self.trial.send(*self.starts, self.end)
        self.trial.run(SHORT_RUN)

    def assertion_5_replay_changes_nothing(self):
        assertDataFrameEqual(self.trial.changes(), self.changes_before)
        assertDataFrameEqual(self.trial.read(SESSIONS), self.sessions_before)
        repeats = self.trial.read(STREAM_PROGRESS).selectExpr("sum(duplicate_start)", "sum(duplicate_end)").first()
        assert tuple(repeats) == (2, 1), f"counted as repeats: {tuple(repeats)}"


# COMMAND ----------

report(StreamFixture())
