-- Computed exactly, at each query, from the event times in sessions. The query sorts instants within one minute, in
-- parallel; only minutes are sorted over a whole platform. A session counts from its start until just before its end.
-- One that ends exactly when a minute begins touches that minute, but does not raise its peak.
-- recent_concurrent_sessions is the same query over fewer sessions.
CREATE OR REPLACE VIEW ${schema}.concurrent_sessions (
  minute COMMENT 'of event time',
  platform COMMENT 'pc, console or as the event map says',
  title COMMENT 'the game; null where the event map has none',
  sessions COMMENT 'sessions that touched the minute',
  peak COMMENT 'the most sessions at one instant of the minute'
)
COMMENT 'How many sessions touched each minute of event time, and the most at one instant of it, by platform and title'
AS
WITH played AS (
  SELECT platform, ${title} AS title, started_at, ended_at FROM ${schema}.sessions
), edges AS (
  SELECT platform, title, started_at AS at, 1 AS step FROM played WHERE started_at IS NOT NULL
  UNION ALL
  SELECT platform, title, ended_at, -1 FROM played WHERE started_at IS NOT NULL AND ended_at IS NOT NULL
), instants AS (
  SELECT platform, title, date_trunc('MINUTE', at) AS minute, at,
         sum(step) AS step, count_if(step = 1) AS starts, count_if(step = -1) AS ends
  FROM edges GROUP BY platform, title, at
), rises AS (
  SELECT *, sum(step) OVER (PARTITION BY platform, title, minute ORDER BY at) AS rise FROM instants
), busy AS (
  SELECT platform, title, minute, sum(step) AS step, sum(starts) AS starts, sum(ends) AS ends,
         CASE WHEN min(at) = minute THEN max(rise) ELSE greatest(max(rise), 0) END AS rise
  FROM rises GROUP BY platform, title, minute
), marks AS (
  SELECT platform, title, minute, sum(touch) AS touch, sum(step) AS step, coalesce(max(rise), 0) AS rise
  FROM (
    SELECT platform, title, minute, starts AS touch, step, rise FROM busy
    UNION ALL
    SELECT platform, title, minute + INTERVAL 1 MINUTE, -ends, 0, NULL FROM busy
  ) GROUP BY platform, title, minute
), levels AS (
  SELECT platform, title, minute,
         sum(touch) OVER by_minute AS sessions,
         rise - step + sum(step) OVER by_minute AS peak,
         lead(minute) OVER by_minute AS next_minute
  FROM marks WINDOW by_minute AS (PARTITION BY platform, title ORDER BY minute)
), minutes AS (
  SELECT explode(sequence(
           minute,
           coalesce(next_minute - INTERVAL 1 MINUTE, greatest(minute, date_trunc('MINUTE', current_timestamp()))),
           INTERVAL 1 MINUTE)) AS minute,
         platform, title, sessions, peak
  FROM levels
  WHERE sessions > 0
)
SELECT minute, platform, title, sessions, peak FROM minutes;
