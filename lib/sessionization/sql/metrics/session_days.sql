-- The queries of the job players say what of a session lies in a day; the job's last run gives the time zone, and the
-- instant up to which a live session counts.
CREATE OR REPLACE VIEW ${schema}.session_days (
  day COMMENT 'day in the time zone of the job players',
  player_kind COMMENT 'account, or device where the session has no account',
  player COMMENT 'the account, or the device',
  title COMMENT 'the game; null where none is known',
  platform COMMENT 'pc, console or as the event map says',
  end_reason COMMENT 'how the session ended; null while it is live',
  starts_here COMMENT 'whether the session started on the day, and did not go on from the day before',
  is_live COMMENT 'whether the session is live; it counts up to the last run of the job players',
  length_ms COMMENT 'length of the whole session',
  play_ms COMMENT 'play time within the day',
  foreground_ms COMMENT 'foreground time, over midnight in proportion to the play time',
  is_first_day COMMENT 'whether the player has no earlier day, in any title'
)
COMMENT 'A row for each session and each day that it touched: what session_metrics counts'
AS
WITH played AS (
${played}
), days AS (
${days}
), played_in_days AS (
${played_in_days}
), firsts AS (
  SELECT first_day AS day, player_kind, player, true AS is_first_day
  FROM ${schema}.player_first_days WHERE title = 'all'
)
SELECT day, player_kind, player, title, platform, end_reason, starts_here, is_live, length_ms, play_ms, foreground_ms,
       coalesce(is_first_day, false) AS is_first_day
FROM played_in_days LEFT JOIN firsts USING (day, player_kind, player);
