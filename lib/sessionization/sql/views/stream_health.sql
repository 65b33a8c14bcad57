CREATE OR REPLACE VIEW ${schema}.stream_health (
  minute COMMENT 'of processing',
  messages COMMENT 'messages that archive took',
  quarantined COMMENT 'messages put into quarantine',
  reused_ids COMMENT 'Starts after the known end of a session with the same id',
  events COMMENT 'valid events that sessionize took',
  heartbeats COMMENT 'heartbeats that sessionize wrote',
  batch_ms COMMENT 'the slowest micro-batch of sessionize',
  latency_p50_ms COMMENT 'sessionize: from ingest to commit, mean of the medians',
  latency_p99_ms COMMENT 'sessionize: from ingest to commit, of its worst micro-batch',
  lateness_p50_ms COMMENT 'heartbeats: from due_at to commit, mean of the medians',
  lateness_p99_ms COMMENT 'heartbeats: from due_at to commit, of the worst micro-batch',
  state_rows COMMENT 'rows in state',
  state_bytes COMMENT 'memory used by state'
)
COMMENT 'Per minute of the last week: what the queries took in, how long sessionize took, how late its rows were'
AS
SELECT date_trunc('MINUTE', processed_at) AS minute,
       coalesce(sum(rows_in) FILTER (WHERE query = 'archive'), 0) AS messages,
       coalesce(sum(quarantined), 0) AS quarantined,
       coalesce(sum(reused_ids), 0) AS reused_ids,
       coalesce(sum(rows_in) FILTER (WHERE query = 'sessionize'), 0) AS events,
       coalesce(sum(heartbeats), 0) AS heartbeats,
       max(batch_ms) FILTER (WHERE query = 'sessionize') AS batch_ms,
       cast(avg(latency_p50_ms) FILTER (WHERE query = 'sessionize') AS bigint) AS latency_p50_ms,
       max(latency_p99_ms) FILTER (WHERE query = 'sessionize') AS latency_p99_ms,
       cast(avg(lateness_p50_ms) AS bigint) AS lateness_p50_ms,
       max(lateness_p99_ms) AS lateness_p99_ms,
       max(state_rows) AS state_rows, max(state_bytes) AS state_bytes
FROM ${schema}.stream_progress
WHERE processed_at >= current_timestamp() - INTERVAL 7 DAYS
GROUP BY 1;
