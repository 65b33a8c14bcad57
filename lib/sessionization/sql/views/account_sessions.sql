CREATE OR REPLACE VIEW ${schema}.account_sessions (
  account_id COMMENT 'account',
  started_at COMMENT 'event time of the first start',
  ended_at COMMENT 'event time of the last end; null while one of the sessions is live',
  duration_ms COMMENT 'ended_at - started_at; null while one of the sessions is live',
  status COMMENT 'live while one of the sessions is, then ended',
  sessions COMMENT 'sessions that overlap or touch',
  devices COMMENT 'devices of these sessions',
  platforms COMMENT 'platforms of these sessions, sorted'
)
COMMENT 'When each account played, on whatever devices: its sessions that overlap or touch as one'
AS
WITH known AS (
  SELECT account_id, device_id, session_id, platform, started_at, ended_at,
         coalesce(ended_at, TIMESTAMP '9999-12-31 00:00:00') AS until_at
  FROM ${schema}.sessions WHERE account_id IS NOT NULL AND started_at IS NOT NULL
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
GROUP BY account_id, number;
