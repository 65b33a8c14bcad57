CREATE TABLE IF NOT EXISTS ${schema}.player_first_days (
  first_day date NOT NULL COMMENT 'first day on which the player played the title',
  player_kind string NOT NULL COMMENT 'account or device, as in player_days',
  player string NOT NULL COMMENT 'the account, or the device',
  title string NOT NULL COMMENT 'the game; all for any'
)
USING DELTA
PARTITIONED BY (first_day)
COMMENT 'The first day of each player, in each title and in any; kept by the job players'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours'
);
