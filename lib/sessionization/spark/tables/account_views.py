"""Views that show who played when. Each query computes them, exactly, from the event times in `sessions`."""

from sessionization.spark.tables.view import View

# The query sorts instants within one minute, in parallel; only minutes are sorted over a whole platform. A session
# counts from its start until just before its end. One that ends exactly when a minute begins touches that minute, but
# does not raise its peak.
_CONCURRENT_SESSIONS = """
    WITH edges AS (
      SELECT platform, started_at AS at, 1 AS step FROM {sessions} WHERE started_at IS NOT NULL
      UNION ALL
      SELECT platform, ended_at, -1 FROM {sessions} WHERE started_at IS NOT NULL AND ended_at IS NOT NULL
    ), instants AS (
      SELECT platform, date_trunc('MINUTE', at) AS minute, at,
             sum(step) AS step, count_if(step = 1) AS starts, count_if(step = -1) AS ends
      FROM edges GROUP BY platform, at
    ), rises AS (
      SELECT *, sum(step) OVER (PARTITION BY platform, minute ORDER BY at) AS rise FROM instants
    ), busy AS (
      SELECT platform, minute, sum(step) AS step, sum(starts) AS starts, sum(ends) AS ends,
             CASE WHEN min(at) = minute THEN max(rise) ELSE greatest(max(rise), 0) END AS rise
      FROM rises GROUP BY platform, minute
    ), marks AS (
      SELECT platform, minute, sum(touch) AS touch, sum(step) AS step, coalesce(max(rise), 0) AS rise
      FROM (
        SELECT platform, minute, starts AS touch, step, rise FROM busy
        UNION ALL
        SELECT platform, minute + INTERVAL 1 MINUTE, -ends, 0, NULL FROM busy
      ) GROUP BY platform, minute
    ), levels AS (
      SELECT platform, minute,
             sum(touch) OVER by_minute AS sessions,
             rise - step + sum(step) OVER by_minute AS peak,
             lead(minute) OVER by_minute AS next_minute
      FROM marks WINDOW by_minute AS (PARTITION BY platform ORDER BY minute)
    )
    SELECT explode(sequence(
             minute,
             coalesce(next_minute - INTERVAL 1 MINUTE, greatest(minute, date_trunc('MINUTE', current_timestamp()))),
             INTERVAL 1 MINUTE)) AS minute,
           platform, sessions, peak
    FROM levels
    WHERE sessions > 0
    """

CONCURRENT_SESSIONS = View(
    "concurrent_sessions",
    "How many sessions touched each minute of event time, and the most at one instant of it, by platform",
    _CONCURRENT_SESSIONS,
)

RECENT_SPAN = "INTERVAL 24 HOURS"
"""How far `recent_concurrent_sessions` goes back, in SQL."""

# A session that touches a minute of the last 24 hours is live, or ended within them. Statistics let Delta skip the
# files of all others; a condition on `minute` alone would read all sessions that ever were.
_RECENT_SESSIONS = f"""
      (SELECT * FROM {{sessions}} WHERE status = 'live' OR ended_at >= current_timestamp() - {RECENT_SPAN})"""

RECENT_CONCURRENT_SESSIONS = View(
    "recent_concurrent_sessions",
    "concurrent_sessions of the last 24 hours; it reads only the sessions of that time",
    f"""
    SELECT * FROM ({_CONCURRENT_SESSIONS.replace("{sessions}", _RECENT_SESSIONS)})
    WHERE minute >= current_timestamp() - {RECENT_SPAN}
    """,
)

ACCOUNT_SESSIONS = View(
    "account_sessions",
    "When each account played, on whatever devices: its sessions that overlap or touch as one",
    """
    WITH known AS (
      SELECT account_id, device_id, session_id, platform, started_at, ended_at,
             coalesce(ended_at, TIMESTAMP '9999-12-31 00:00:00') AS until_at
      FROM {sessions} WHERE account_id IS NOT NULL AND started_at IS NOT NULL
    ), with_previous_end AS (
      SELECT *, max(until_at) OVER (
                  PARTITION BY account_id ORDER BY started_at, device_id, session_id
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_until_at
      FROM known
    ), numbered AS (
      SELECT *, count_if(before_until_at IS NULL OR started_at > before_until_at) OVER (
                  PARTITION BY account_id ORDER BY started_at, device_id, session_id
                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
      FROM with_previous_end
    )
    SELECT account_id, min(started_at) AS started_at,
           CASE WHEN count(*) = count(ended_at) THEN max(ended_at) END AS ended_at,
           CASE WHEN count(*) = count(ended_at) THEN unix_millis(max(ended_at)) - unix_millis(min(started_at)) END
             AS duration_ms,
           CASE WHEN count(*) = count(ended_at) THEN 'ended' ELSE 'live' END AS status,
           count(*) AS sessions, count(DISTINCT device_id) AS devices,
           array_sort(collect_set(platform)) AS platforms
    FROM numbered
    GROUP BY account_id, number
    """,
)
