-- Alerts query this view every few minutes, so it reads only a day of stream_progress, and the live rows of sessions.
--
-- How far is a query behind? If it had micro-batches in the last ten minutes: by the lowest of their latencies (p99).
-- A single one may be late after a restart, and if one was in time the query has caught up. If it had none: by the time
-- for which work has waited for it.
--   sessionize has a micro-batch every second, so an old one means that it stands still.
--   rollup and archive have no micro-batch without input, so an old one means nothing by itself.
--   rollup has work since sessionize last wrote Starts or ends that came after rollup's last micro-batch.
--   archive has work since sessionize took events that arrived after archive's last micro-batch. A minute is allowed,
--   because ingest times come from another clock.
CREATE OR REPLACE VIEW ${schema}.freshness (
  live COMMENT 'live sessions',
  last_heartbeat_at COMMENT 'the newest micro-batch of sessionize with heartbeats',
  last_micro_batch_at COMMENT 'the newest micro-batch of sessionize',
  last_message_at COMMENT 'the newest micro-batch of archive with messages',
  oldest_live_ms COMMENT 'time since the first of the live sessions started',
  heartbeat_age_ms COMMENT 'time since last_heartbeat_at',
  heartbeat_lateness_ms COMMENT 'how late the newest heartbeats were (p99)',
  micro_batch_age_ms COMMENT 'time since last_micro_batch_at',
  message_age_ms COMMENT 'time since last_message_at',
  behind_ms COMMENT 'delay of behind_query: the lowest p99 latency of its last micro-batches, or how long work waits',
  behind_query COMMENT 'the query that is furthest behind'
)
COMMENT 'One row, of the last day: what is live, how old the newest rows are, which query is behind; null where never'
AS
WITH recent AS (
  SELECT *, unix_millis(processed_at) + coalesce(batch_ms, 0) AS done_ms
  FROM ${schema}.stream_progress
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
                THEN coalesce(age_ms, if((SELECT count(*) FROM ${schema}.stream_progress) > 0, 86400000, NULL))
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
FROM (SELECT count(*) AS live, min(updated_at) AS oldest_live_at FROM ${schema}.sessions WHERE status = 'live')
CROSS JOIN (
  SELECT max(last_heartbeat_at) AS last_heartbeat_at, max(heartbeat_lateness_ms) AS heartbeat_lateness_ms,
         max(last_batch_at) FILTER (WHERE query = 'sessionize') AS last_micro_batch_at,
         max(last_rows_at) FILTER (WHERE query = 'archive') AS last_message_at,
         max(ms) AS behind_ms, max_by(query, ms) AS behind_query
  FROM behind
);
