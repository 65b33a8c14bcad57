CREATE TABLE IF NOT EXISTS ${schema}.player_days (
  day date NOT NULL COMMENT 'day in the time zone of the job players',
  player_kind string NOT NULL COMMENT 'account, or device where the session has no account',
  player string NOT NULL COMMENT 'the account, or the device',
  title string COMMENT 'the game; null where none is known',
  platform string NOT NULL COMMENT 'pc, console or as the event map says',
  sessions bigint NOT NULL COMMENT 'sessions that started on the day; 0 where all went on from the day before',
  play_ms bigint NOT NULL COMMENT 'play time within the day',
  foreground_ms bigint NOT NULL COMMENT 'foreground time, over midnight in proportion to the play time',
  first_at timestamp NOT NULL COMMENT 'first instant of play within the day',
  last_at timestamp NOT NULL COMMENT 'last instant of play within the day',
  is_first_day boolean NOT NULL COMMENT 'whether the player has no earlier day, in any title',
  provisional boolean NOT NULL COMMENT 'whether one of the sessions was live, and counted up to then',
  _sessions array<bigint> NOT NULL COMMENT 'internal: the sessions, as hashes of their keys'
)
USING DELTA
-- A run replaces whole days.
PARTITIONED BY (day)
COMMENT 'Who played what on which day, how often and how long; kept by the job players'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  -- Each run replaces days, and nobody reads the history.
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours'
);
