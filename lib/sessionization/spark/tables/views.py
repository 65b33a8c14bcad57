"""The views over the tables, and their creation."""

from pyspark.sql import SparkSession

from sessionization.durations import HOUR_MS
from sessionization.spark.tables.account_views import ACCOUNT_SESSIONS, CONCURRENT_SESSIONS, RECENT_CONCURRENT_SESSIONS
from sessionization.spark.tables.location import TableLocation, quoted_text
from sessionization.spark.tables.schemas import HEARTBEAT_PROPERTY, SESSION_PREDICTIONS, SESSIONS, TABLES
from sessionization.spark.tables.view import View

_SLOWEST_BATCH_MS = 10 * 60_000
_UNKNOWN_HEARTBEAT_MS = HOUR_MS
"""The interval that is assumed for tables whose job has not stored it yet."""

# Every live session beats once per interval, or once per micro-batch if that takes longer. So the view reads only the
# heartbeats of a short time before the newest one, however long the session and the job have been running.
LIVE_SESSIONS = View(
    "live_sessions",
    "The sessions that are live, with their last heartbeat and its age",
    """
    WITH newest AS (
      SELECT max(least(processed_at, current_timestamp())) AS at
      FROM {stream_progress}
      WHERE heartbeats > 0 AND processed_at >= current_timestamp() - INTERVAL 7 DAYS
    ), oldest AS (
      SELECT coalesce(at - INTERVAL {heartbeat_window_s} SECONDS, TIMESTAMP '1970-01-01') AS at FROM newest
    )
    SELECT s.device_id, s.session_id, s.account_id, s.platform, s.started_at,
           h.last.beat, h.last.due_at AS last_due_at, h.last.processed_at AS last_heartbeat_at,
           unix_millis(current_timestamp()) - unix_millis(h.last.processed_at) AS heartbeat_age_ms
    FROM {sessions} s
    LEFT JOIN (
      SELECT device_id, session_id, max(struct(processed_at, beat, due_at)) AS last
      FROM {session_changes}
      WHERE change = 'heartbeat'
        AND change_date >= (SELECT to_date(at) FROM oldest) AND processed_at >= (SELECT at FROM oldest)
      GROUP BY device_id, session_id
    ) h USING (device_id, session_id)
    WHERE s.status = 'live'
    """,
)

DEVICE_TIMELINE = View(
    "device_timeline",
    "The changes of a device in the order in which they happened; filter by device_id",
    """
    SELECT device_id,
           row_number() OVER (
             PARTITION BY device_id
             ORDER BY processed_at, event_at NULLS LAST,
                      CASE WHEN change = 'started' THEN 1 WHEN starts_here THEN 2 ELSE 0 END,
                      session_id, revision) AS position,
           processed_at, session_id, change, end_reason, revision, started_at, ended_at, duration_ms, foreground_s,
           beat, missed_beats, due_at, event_at, account_id, platform
    FROM (
      SELECT *, bool_or(change = 'started') OVER (
                  PARTITION BY device_id, processed_at, event_at, session_id) AS starts_here
      FROM {session_changes}
    )
    """,
)

# A session's end counts at the last update of its row, so a correction moves it to another day and minute. Days
# are UTC, as in `change_date`, whatever the session's time zone in Spark.
_UPDATED_DATE = "date_from_unix_date(CAST(unix_millis(updated_at) DIV 86400000 AS int))"

SESSION_QUALITY = View(
    "session_quality",
    "Per day: starts, ends by reason (each session once, by the end that sessions shows), corrected ends, "
    "missed beats, and quarantined messages by reason",
    f"""
    WITH changes AS (
      SELECT change_date AS day,
             count_if(change = 'started') AS started,
             count_if(change = 'ended' AND revision > 0) AS corrected_ends,
             coalesce(sum(missed_beats), 0) AS missed_beats
      FROM {{session_changes}} GROUP BY change_date
    ), ends AS (
      SELECT {_UPDATED_DATE} AS day,
             count_if(end_reason = 'reported') AS ended_reported,
             count_if(end_reason = 'superseded') AS ended_superseded,
             count_if(end_reason = 'timed_out') AS ended_timed_out,
             count_if(end_reason = 'orphaned') AS ended_orphaned
      FROM {{sessions}} WHERE status = 'ended' GROUP BY 1
    ), refused AS (
      SELECT day, sum(messages) AS quarantined, map_from_entries(collect_list(struct(reason, messages))) AS reasons
      FROM (SELECT ingest_date AS day, reason, count(*) AS messages FROM {{quarantine}} GROUP BY ALL)
      GROUP BY day
    )
    SELECT day, coalesce(started, 0) AS started,
           coalesce(ended_reported, 0) AS ended_reported, coalesce(ended_superseded, 0) AS ended_superseded,
           coalesce(ended_timed_out, 0) AS ended_timed_out, coalesce(ended_orphaned, 0) AS ended_orphaned,
           coalesce(corrected_ends, 0) AS corrected_ends, coalesce(missed_beats, 0) AS missed_beats,
           coalesce(quarantined, 0) AS quarantined, reasons AS quarantined_by_reason
    FROM changes FULL OUTER JOIN ends USING (day) FULL OUTER JOIN refused USING (day)
    """,
)

SESSION_FLOW = View(
    "session_flow",
    "Per minute (of processing) of the last week, and platform: sessions that started, and ends by reason, each "
    "session once, by the end that sessions shows",
    f"""
    SELECT change_date, minute, platform,
           count_if(is_start) AS started,
           count_if(end_reason = 'reported') AS ended_reported,
           count_if(end_reason = 'superseded') AS ended_superseded,
           count_if(end_reason = 'timed_out') AS ended_timed_out,
           count_if(end_reason = 'orphaned') AS ended_orphaned
    FROM (
      SELECT change_date, date_trunc('MINUTE', processed_at) AS minute, platform, true AS is_start, NULL AS end_reason
      FROM {{session_changes}}
      WHERE change = 'started' AND change_date >= date_sub(current_date(), 8)
        AND processed_at >= date_trunc('MINUTE', current_timestamp() - INTERVAL 7 DAYS)
      UNION ALL
      SELECT {_UPDATED_DATE}, date_trunc('MINUTE', updated_at), platform, false, end_reason
      FROM {{sessions}}
      WHERE status = 'ended' AND updated_at >= date_trunc('MINUTE', current_timestamp() - INTERVAL 7 DAYS)
    )
    GROUP BY 1, 2, 3
    """,
)

QUARANTINE_REASONS = View(
    "quarantine_reasons",
    "Per hour (of ingest), stream and reason: messages in quarantine; filter by ingest_date too",
    """
    SELECT ingest_date, date_trunc('HOUR', ingested_at) AS hour, stream, reason, count(*) AS messages
    FROM {quarantine}
    GROUP BY 1, 2, 3, 4
    """,
)

STREAM_HEALTH = View(
    "stream_health",
    "Per minute of the last week: what the queries took in, how long the sessionize query took, and how late "
    "its rows were",
    """
    SELECT date_trunc('MINUTE', processed_at) AS minute,
           coalesce(sum(rows_in) FILTER (WHERE query = 'archive'), 0) AS messages,
           coalesce(sum(quarantined), 0) AS quarantined,
           coalesce(sum(reused_ids), 0) AS reused_ids,
           coalesce(sum(rows_in) FILTER (WHERE query = 'sessionize'), 0) AS events,
           coalesce(sum(heartbeats), 0) AS heartbeats,
           max(batch_ms) FILTER (WHERE query = 'sessionize') AS batch_ms,
           CAST(avg(latency_p50_ms) FILTER (WHERE query = 'sessionize') AS bigint) AS latency_p50_ms,
           max(latency_p99_ms) FILTER (WHERE query = 'sessionize') AS latency_p99_ms,
           CAST(avg(lateness_p50_ms) AS bigint) AS lateness_p50_ms,
           max(lateness_p99_ms) AS lateness_p99_ms,
           max(state_rows) AS state_rows, max(state_bytes) AS state_bytes
    FROM {stream_progress}
    WHERE processed_at >= current_timestamp() - INTERVAL 7 DAYS
    GROUP BY 1
    """,
)

# The view reads one day of `stream_progress` (and the live rows of `sessions`), because alerts query it every five
# minutes. The sessionize query has a micro-batch every second. The other queries have none without input, so an
# old micro-batch alone does not show a backlog. `archive` is behind if it has no micro-batch since sessionize took
# events with later ingest times; one minute is allowed, because another clock sets ingest times. `rollup` is
# behind if it has none since sessionize wrote Starts or ends.
FRESHNESS = View(
    "freshness",
    "One row, of the last day: live sessions, how long ago the first of them started, how long ago the newest "
    "heartbeat, micro-batch and message were, how late the newest heartbeats were (p99), and how far the query that is "
    "furthest behind is behind: the latency (p99) of its best micro-batch that was done in the last ten minutes, or "
    "for how long it has been done with none though there was something to do; null where never",
    """
    WITH recent AS (
      SELECT *, unix_millis(processed_at) + coalesce(batch_ms, 0) AS done_ms
      FROM {stream_progress}
      WHERE processed_at >= current_timestamp() - INTERVAL 1 DAY
    ), done AS (
      SELECT query, max(done_ms) AS last_done_ms,
             min(latency_p99_ms) FILTER (WHERE unix_millis(current_timestamp()) - done_ms <= 600000)
               AS least_latency_ms,
             max(processed_at) AS last_batch_at,
             max(processed_at) FILTER (WHERE rows_in > 0) AS last_rows_at,
             max(processed_at) FILTER (WHERE heartbeats > 0) AS last_heartbeat_at,
             max_by(lateness_p99_ms, processed_at) FILTER (WHERE heartbeats > 0) AS heartbeat_lateness_ms
      FROM recent GROUP BY query
    ), given AS (
      SELECT stack(2,
               'archive', if(rows_in > 0, done_ms - latency_max_ms - 60000, NULL),
               'rollup', if(started + ended > 0, done_ms, NULL)) AS (query, given_ms)
      FROM recent WHERE query = 'sessionize'
    ), waiting AS (
      SELECT query, min(given_ms) AS since_ms
      FROM given LEFT JOIN done USING (query)
      WHERE given_ms > coalesce(last_done_ms, 0)
      GROUP BY query
    ), ages AS (
      SELECT *, unix_millis(current_timestamp()) - last_done_ms AS age_ms,
             unix_millis(current_timestamp()) - since_ms AS waits_ms,
             unix_millis(current_timestamp()) - max(if(query = 'sessionize', last_done_ms, NULL)) OVER ()
               AS sessionize_age_ms
      FROM VALUES ('sessionize'), ('archive'), ('rollup') AS queries(query)
      LEFT JOIN done USING (query)
      LEFT JOIN waiting USING (query)
    ), behind AS (
      SELECT *,
             CASE WHEN age_ms <= 600000 THEN coalesce(least_latency_ms, 0)
                  WHEN query = 'sessionize'
                    THEN coalesce(age_ms, if((SELECT count(*) FROM {stream_progress}) > 0, 86400000, NULL))
                  WHEN sessionize_age_ms <= 600000 AND waits_ms > 600000 THEN waits_ms
             END AS ms
      FROM ages
    )
    SELECT live, last_heartbeat_at, last_micro_batch_at, last_message_at,
           unix_millis(current_timestamp()) - unix_millis(oldest_live_at) AS oldest_live_ms,
           unix_millis(current_timestamp()) - unix_millis(last_heartbeat_at) AS heartbeat_age_ms,
           heartbeat_lateness_ms,
           unix_millis(current_timestamp()) - unix_millis(last_micro_batch_at) AS micro_batch_age_ms,
           unix_millis(current_timestamp()) - unix_millis(last_message_at) AS message_age_ms,
           behind_ms, behind_query
    FROM (SELECT count(*) AS live, min(updated_at) AS oldest_live_at FROM {sessions} WHERE status = 'live')
    CROSS JOIN (
      SELECT max(last_heartbeat_at) AS last_heartbeat_at, max(heartbeat_lateness_ms) AS heartbeat_lateness_ms,
             max(last_batch_at) FILTER (WHERE query = 'sessionize') AS last_micro_batch_at,
             max(last_rows_at) FILTER (WHERE query = 'archive') AS last_message_at,
             max(ms) AS behind_ms, max_by(query, ms) AS behind_query
      FROM behind
    )
    """,
)

VIEWS = (
    LIVE_SESSIONS,
    CONCURRENT_SESSIONS,
    RECENT_CONCURRENT_SESSIONS,
    ACCOUNT_SESSIONS,
    DEVICE_TIMELINE,
    SESSION_QUALITY,
    SESSION_FLOW,
    QUARANTINE_REASONS,
    STREAM_HEALTH,
    FRESHNESS,
)


def create_views(spark: SparkSession, location: TableLocation) -> None:
    """Create or replace the views: in the catalog's schema, or for this Spark session where the tables are folders.

    Without a catalog, each table also gets a session view, so that `SELECT * FROM sessions` works on a laptop;
    `session_predictions` too, if it is there.
    """
    tables = {table.name: location.sql_name(table.name) for table in TABLES}
    stored = location.properties(spark, SESSIONS).get(HEARTBEAT_PROPERTY, "")
    heartbeat_ms = int(stored) if stored.isdigit() else _UNKNOWN_HEARTBEAT_MS
    window_s = -(-(4 * heartbeat_ms + _SLOWEST_BATCH_MS) // 1_000)
    if location.warehouse is not None:
        if location.exists(spark, SESSION_PREDICTIONS):
            tables[SESSION_PREDICTIONS.name] = location.sql_name(SESSION_PREDICTIONS.name)
        for name, source in tables.items():
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM {source}")
    for view in VIEWS:
        comment = quoted_text(view.comment)
        body = view.sql.format_map(tables | {"heartbeat_window_s": window_s})
        if location.warehouse is not None:
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view.name} COMMENT {comment} AS {body}")
        else:
            spark.sql(f"CREATE OR REPLACE VIEW {location.sql_name(view.name)} COMMENT {comment} AS {body}")
