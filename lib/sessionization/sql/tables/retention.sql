CREATE TABLE IF NOT EXISTS ${schema}.retention (
  cohort_day date NOT NULL COMMENT 'first day of the players in the title; for all titles, in any',
  title string NOT NULL COMMENT 'the game; all for all together',
  players bigint NOT NULL COMMENT 'players whose first day it is',
  day_1 bigint COMMENT 'how many of them played it 1 day later; null until that day has come',
  day_3 bigint COMMENT 'how many of them played it 3 days later; null until that day has come',
  day_7 bigint COMMENT 'how many of them played it 7 days later; null until that day has come',
  day_14 bigint COMMENT 'how many of them played it 14 days later; null until that day has come',
  day_28 bigint COMMENT 'how many of them played it 28 days later; null until that day has come',
  day_30 bigint COMMENT 'how many of them played it 30 days later; null until that day has come'
)
USING DELTA
COMMENT 'How many players of each first day came back, by title; kept by the job players'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours'
);
