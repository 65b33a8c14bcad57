CREATE TABLE IF NOT EXISTS ${schema}.finding_limits (
  finding string NOT NULL COMMENT 'as in session_findings; without a row there is none of its kind',
  player_kind string COMMENT 'account or device, as in player_days; null where the limit is for all others',
  player string COMMENT 'the account, or the device; null where the limit is for all others',
  most bigint NOT NULL COMMENT 'the most devices or starts in ten minutes, or milliseconds, that are no finding'
)
USING DELTA
COMMENT 'What is no finding yet; change the rows as you like: they hold for days that are computed then'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.constraints.known_finding' =
    "finding IN ('devices_at_once', 'play_time', 'without_end', 'many_starts', 'foreground')",
  'delta.constraints.one_or_all' = '(player_kind IS NULL) = (player IS NULL)'
);
