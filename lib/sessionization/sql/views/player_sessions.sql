-- Sessions with a Start. A live one counts as going on; of two with the same start the smaller device is first.
CREATE OR REPLACE VIEW ${schema}.player_sessions (
  player_kind COMMENT 'account, or device where the session has no account',
  player COMMENT 'the account, or the device',
  number COMMENT 'place among the sessions of the player, from 1',
  device_id,
  session_id,
  title COMMENT 'the game; null where the event map has none',
  platform,
  status,
  started_at,
  ended_at COMMENT 'null while live',
  duration_ms COMMENT 'null while live',
  gap_ms COMMENT 'from the latest end before to the start; 0 while another went on, null for the first',
  overlaps COMMENT 'whether another session of the player went on at the same time'
)
COMMENT 'The sessions of each player, on all devices, in order; filter by player_kind and player'
AS
WITH played AS (
  SELECT CASE WHEN account_id IS NULL THEN 'device' ELSE 'account' END AS player_kind,
         coalesce(account_id, device_id) AS player, device_id, session_id, ${title} AS title, platform, status,
         started_at, ended_at, duration_ms, coalesce(ended_at, TIMESTAMP '9999-12-31 00:00:00') AS until_at
  FROM ${schema}.sessions WHERE started_at IS NOT NULL
), ordered AS (
  SELECT *, row_number() OVER by_player AS number,
         max(until_at) OVER (
           PARTITION BY player_kind, player ORDER BY started_at, device_id, session_id
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_until_at,
         lead(started_at) OVER by_player AS next_started_at
  FROM played WINDOW by_player AS (PARTITION BY player_kind, player ORDER BY started_at, device_id, session_id)
)
SELECT player_kind, player, number, device_id, session_id, title, platform, status, started_at, ended_at, duration_ms,
       CASE WHEN before_until_at IS NOT NULL
            THEN greatest(0, unix_millis(started_at) - unix_millis(before_until_at)) END AS gap_ms,
       coalesce(before_until_at > started_at, false) OR coalesce(next_started_at < until_at, false) AS overlaps
FROM ordered;
