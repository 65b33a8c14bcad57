-- Every live session beats once per interval, or once per micro-batch if that takes longer. So the view reads only the
-- heartbeats of the last ${heartbeat_window_s} seconds before the newest one, however long the session and the job have
-- been running: four intervals and ten minutes.
CREATE OR REPLACE VIEW ${schema}.live_sessions (
  device_id,
  session_id,
  account_id,
  platform,
  started_at,
  beat COMMENT 'number of the last heartbeat; null before the first one',
  last_due_at COMMENT 'the instant of the grid that the last heartbeat stands for',
  last_heartbeat_at COMMENT 'when the last heartbeat was processed',
  heartbeat_age_ms COMMENT 'time since last_heartbeat_at',
  last_active_at COMMENT 'event time of the newest sign of life, as of the last heartbeat; null without such signs',
  idle_ms COMMENT 'from last_active_at to last_heartbeat_at; negative where the clock of the device is ahead'${labels}
)
COMMENT 'The sessions that are live, with their last heartbeat, its age, and their last sign of life'
AS
WITH newest AS (
  SELECT max(least(processed_at, current_timestamp())) AS at
  FROM ${schema}.stream_progress
  WHERE heartbeats > 0 AND processed_at >= current_timestamp() - INTERVAL 7 DAYS
), oldest AS (
  SELECT coalesce(at - INTERVAL ${heartbeat_window_s} SECONDS, TIMESTAMP '1970-01-01') AS at FROM newest
)
SELECT s.device_id, s.session_id, s.account_id, s.platform, s.started_at,
       h.last.beat, h.last.due_at AS last_due_at, h.last.processed_at AS last_heartbeat_at,
       unix_millis(current_timestamp()) - unix_millis(h.last.processed_at) AS heartbeat_age_ms,
       h.last.last_active_at,
       unix_millis(h.last.processed_at) - unix_millis(h.last.last_active_at) AS idle_ms${labels}
FROM ${schema}.sessions s
LEFT JOIN (
  SELECT device_id, session_id,
         max(struct(processed_at, beat, due_at, ${last_active_at} AS last_active_at)) AS last
  FROM ${schema}.session_changes
  WHERE change = 'heartbeat'
    AND change_date >= (SELECT to_date(at) FROM oldest) AND processed_at >= (SELECT at FROM oldest)
  GROUP BY device_id, session_id
) h USING (device_id, session_id)
WHERE s.status = 'live';
