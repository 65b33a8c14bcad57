CREATE TABLE IF NOT EXISTS ${schema}.daily_activity (
  day date NOT NULL COMMENT 'day in the time zone of the job players',
  title string NOT NULL COMMENT 'the game; all for all together',
  platform string NOT NULL COMMENT 'pc, console or as the event map says; all for all together',
  dau bigint NOT NULL COMMENT 'players of the day',
  wau bigint NOT NULL COMMENT 'players of the 7 days that end with it',
  mau bigint NOT NULL COMMENT 'players of the 28 days that end with it',
  stickiness double NOT NULL COMMENT 'dau / mau',
  new_players bigint NOT NULL COMMENT 'players of the day whose first day in the title it is; for all titles, in any',
  returning_players bigint NOT NULL COMMENT 'dau - new_players',
  sessions bigint NOT NULL COMMENT 'sessions that started on the day',
  sessions_per_player double COMMENT 'sessions / dau; null without players',
  play_ms bigint NOT NULL COMMENT 'play time within the day',
  foreground_ms bigint NOT NULL COMMENT 'foreground time within the day, as in player_days',
  length_p50_ms bigint COMMENT 'median length of the sessions that started on the day and have ended',
  length_p90_ms bigint COMMENT 'nine in ten of these were no longer',
  peak_sessions bigint NOT NULL COMMENT 'the most sessions at one instant of the day',
  peak_minute timestamp COMMENT 'the minute of that instant, the first of several; null without play time',
  ended bigint NOT NULL COMMENT 'sessions that started on the day and have ended',
  share_without_end double COMMENT 'share of these that ended without an End of their own; null without any',
  provisional boolean NOT NULL COMMENT 'whether a session of the day was live, and counted up to then'
)
USING DELTA
COMMENT 'The numbers of each day, by title and platform; kept by the job players'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours'
);
