CREATE TABLE IF NOT EXISTS ${schema}.session_findings (
  day date NOT NULL COMMENT 'day in the time zone of the job players',
  finding string NOT NULL COMMENT 'devices_at_once, play_time, without_end, many_starts or foreground',
  player_kind string NOT NULL COMMENT 'account or device, as in player_days',
  player string NOT NULL COMMENT 'the account, or the device',
  device_id string COMMENT 'null where the finding is about all devices of the player',
  session_id string COMMENT 'of a finding about one session',
  first_seen_at timestamp NOT NULL COMMENT 'up to when the first run counted that found it',
  amount bigint NOT NULL COMMENT 'devices, milliseconds or starts, as in finding_limits',
  most bigint NOT NULL COMMENT 'the limit that it exceeds',
  sessions array<string> NOT NULL COMMENT 'the sessions, each as DEVICE/SESSION'
)
USING DELTA
COMMENT 'What is unusual about sessions of a day; a correction withdraws it; kept by the job players'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours'
);
