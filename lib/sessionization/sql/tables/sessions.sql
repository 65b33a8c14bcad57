CREATE TABLE IF NOT EXISTS ${schema}.sessions (
  device_id string NOT NULL COMMENT 'device, as reported',
  session_id bigint NOT NULL COMMENT 'session, as reported',
  account_id string COMMENT 'account of the Start, else of the end shown',
  platform string NOT NULL COMMENT 'pc, console or as the event map says',
  status string NOT NULL COMMENT 'live until an end is known, then ended; live again once resumed',
  started_at timestamp COMMENT 'event time of the Start; null while only an End is known',
  ended_at timestamp COMMENT 'event time of the end; null while live',
  duration_ms bigint COMMENT 'ended_at - started_at; null while live or without a Start',
  foreground_s bigint COMMENT 'seconds in the foreground, as the End reported',
  end_reason string COMMENT 'reported, superseded, timed_out, inactive; orphaned without a Start; null while live',
  revision int NOT NULL COMMENT 'how often it had ended or resumed before this end; 0 while live',
  updated_at timestamp NOT NULL COMMENT 'when its newest change was processed, heartbeats aside',
  _first_start STRUCT<started_at: timestamp, account_id: string, platform: string> COMMENT 'internal',
  _shown_end STRUCT<rank: int, revision: int, ended_at: timestamp, foreground_s: bigint, account_id: string,
    end_reason: string, platform: string> COMMENT 'internal',
  _part string COMMENT 'internal: live, or the day (UTC) of the start, without a Start of the end'
)
USING DELTA
-- A MERGE reads the live sessions, and the days that hold one of its sessions.
PARTITIONED BY (_part)
COMMENT 'One row per session, kept up to date by MERGE'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  -- A commit every few seconds, and nobody reads the history: a short one is less to list and to rewrite.
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours',
  -- A session that ends changes one row: without these its whole file would be written again.
  'delta.enableDeletionVectors' = 'true',
  'delta.constraints.known_status' = "status IN ('live', 'ended')",
  'delta.constraints.end_when_ended' = "(status = 'ended') = (ended_at IS NOT NULL)",
  'delta.constraints.never_negative' = 'duration_ms IS NULL OR duration_ms >= 0',
  'delta.constraints.part_of_status' = "_part IS NOT NULL AND (status = 'live') = (_part = 'live')"
);
