CREATE TABLE IF NOT EXISTS ${schema}.stream_progress (
  query string NOT NULL COMMENT 'sessionize, archive or rollup',
  batch_id bigint NOT NULL COMMENT "the query's micro-batch",
  processed_at timestamp NOT NULL COMMENT "the micro-batch's clock, or when its sink began",
  rows_in bigint NOT NULL COMMENT 'sessionize: valid events; archive: messages; rollup: changes',
  started bigint COMMENT 'sessionize: changes of this kind',
  heartbeats bigint COMMENT 'sessionize: changes of this kind',
  ended bigint COMMENT 'sessionize: changes of this kind',
  duplicate_start bigint COMMENT 'sessionize: Starts that said nothing new',
  duplicate_end bigint COMMENT 'sessionize: Ends that said nothing new',
  evicted bigint COMMENT 'sessionize: entries forgotten early because of --max-sessions-per-device',
  quarantined bigint COMMENT 'archive: messages put into quarantine',
  batch_ms bigint COMMENT "from the micro-batch's clock to the commit of its rows",
  state_rows bigint COMMENT 'sessionize: rows in state, as the engine reported last',
  state_bytes bigint COMMENT 'sessionize: memory used by state, as the engine reported last',
  latency_p50_ms bigint COMMENT 'from ingest to commit, of the rows that an event caused',
  latency_p99_ms bigint COMMENT 'from ingest to commit',
  latency_max_ms bigint COMMENT 'from ingest to commit',
  lateness_p50_ms bigint COMMENT 'heartbeats: from due_at to commit',
  lateness_p99_ms bigint COMMENT 'heartbeats: from due_at to commit',
  lateness_max_ms bigint COMMENT 'heartbeats: from due_at to commit',
  state_entries bigint COMMENT 'sessionize: sessions remembered: live, closed, and Ends that wait for a Start',
  reused_ids bigint COMMENT 'rollup: Starts after the known end of a session with the same id',
  late_starts bigint COMMENT 'rollup: other Starts of sessions that were over and forgotten'
)
USING DELTA
COMMENT 'One row per query and micro-batch, append-only, exactly once'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  -- A commit every few seconds, and nobody reads the history: a short one is less to list and to rewrite.
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours'
);
