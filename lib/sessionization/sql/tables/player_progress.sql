CREATE TABLE IF NOT EXISTS ${schema}.player_progress (
  at timestamp NOT NULL COMMENT 'when the row was written',
  reason string NOT NULL COMMENT 'run: a run has ended; begun, erased, merged: days that the next run computes anew',
  read_until timestamp COMMENT 'run: the newest updated_at of sessions that it read',
  as_of timestamp COMMENT 'run: the instant up to which live sessions counted',
  time_zone string COMMENT 'run: the zone of its days',
  days array<date> COMMENT 'begun, erased: these days; merged: this day (UTC) and all later ones; null for a run'
)
USING DELTA
COMMENT 'How far the job players has come: its last run, and days that wait for the next one'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours'
);
