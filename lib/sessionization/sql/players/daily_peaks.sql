-- The most sessions at one instant of the day, and the first such instant. A session counts until just before its end.
WITH instants AS (
  SELECT day, t.title, f.platform, at, sum(step) AS step
  FROM ${schema}.played_in_days
  LATERAL VIEW inline(array(struct(from_at AS at, 1 AS step), struct(to_at AS at, -1 AS step))) steps
  LATERAL VIEW explode(array_distinct(array_compact(array('all', title)))) t AS title
  LATERAL VIEW explode(array_distinct(array('all', platform))) f AS platform
  WHERE play_ms > 0
  GROUP BY day, t.title, f.platform, at
), levels AS (
  SELECT day, title, platform, at, sum(step) OVER (PARTITION BY day, title, platform ORDER BY at) AS level FROM instants
)
SELECT day, title, platform, max(level) AS peak_sessions,
       date_trunc('MINUTE', min_by(at, struct(-level, at))) AS peak_minute
FROM levels GROUP BY day, title, platform
