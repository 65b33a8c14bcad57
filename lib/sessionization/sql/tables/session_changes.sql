CREATE TABLE IF NOT EXISTS ${schema}.session_changes (
  device_id string NOT NULL COMMENT 'device, as reported',
  session_id bigint NOT NULL COMMENT 'session, as reported',
  account_id string COMMENT "account of the session's Start, or of its End where the Start had none",
  platform string NOT NULL COMMENT 'pc, console or as the event map says: of the Start; of an orphan, of its End',
  change string NOT NULL COMMENT 'started, heartbeat, ended or resumed',
  end_reason string COMMENT 'reported, superseded, timed_out, inactive or orphaned; null unless ended',
  revision int NOT NULL COMMENT '0 unless a later ended or resumed of its session: 1, 2, ...',
  started_at timestamp COMMENT 'event time of the Start; null for an orphaned end',
  ended_at timestamp COMMENT 'event time of the end; null unless ended',
  duration_ms bigint COMMENT 'ended: ended_at - started_at; heartbeat: processed_at - opened; started: 0; else null',
  foreground_s bigint COMMENT 'seconds in the foreground, as the End reported',
  beat int COMMENT 'heartbeats only: instants of the grid since the session was opened, from 1',
  missed_beats int COMMENT 'heartbeats only: how many due instants before this one were skipped',
  due_at timestamp COMMENT 'heartbeats only: the instant of the grid that this beat stands for',
  event_at timestamp COMMENT 'event time of the event that caused it; null where a timer did',
  ingested_at timestamp COMMENT 'ingest time of that event; null where a timer did',
  processed_at timestamp NOT NULL COMMENT "the micro-batch's clock",
  change_date date NOT NULL COMMENT 'date of processed_at (UTC)'
)
USING DELTA
-- Nearly all rows are heartbeats: rollup reads none of their files, and old ones are deleted without being read.
PARTITIONED BY (change_date, change)
COMMENT 'One row per change of a session, append-only, exactly once'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  -- The job commits once per second: a log checkpoint every ten commits would cost one second in ten.
  'delta.checkpointInterval' = '100',
  -- Every commit may list the log, and writes the unused files into its checkpoints.
  'delta.logRetentionDuration' = 'interval 168 hours',
  'delta.deletedFileRetentionDuration' = 'interval 48 hours',
  'delta.constraints.known_change' = "change IN ('started', 'heartbeat', 'ended')",
  'delta.constraints.reason_when_ended' = "(change = 'ended') = (end_reason IS NOT NULL)",
  'delta.constraints.known_reason' =
    "end_reason IS NULL OR end_reason IN ('reported', 'superseded', 'timed_out', 'orphaned')",
  'delta.constraints.end_when_ended' = "(change = 'ended') = (ended_at IS NOT NULL)",
  'delta.constraints.never_negative' = 'duration_ms IS NULL OR duration_ms >= 0',
  'delta.constraints.beat_when_heartbeat' = "(change = 'heartbeat') = (beat IS NOT NULL AND due_at IS NOT NULL)"
);
