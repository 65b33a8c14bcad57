-- Of daily_activity what follows from the players of the day.
WITH players AS (
  SELECT day, title, platform, player_kind, player, sum(sessions) AS sessions, sum(play_ms) AS play_ms,
         sum(foreground_ms) AS foreground_ms, bool_or(provisional) AS provisional
  FROM ${schema}.player_cells
  GROUP BY day, title, platform, player_kind, player
), firsts AS (
  SELECT first_day AS day, player_kind, player, title, true AS is_new
  FROM ${schema}.player_first_days WHERE first_day IN (${due})
)
SELECT day, title, platform, count(*) AS dau, count(is_new) AS new_players, sum(sessions) AS sessions,
       sum(play_ms) AS play_ms, sum(foreground_ms) AS foreground_ms, bool_or(provisional) AS provisional
FROM players LEFT JOIN firsts USING (day, player_kind, player, title)
GROUP BY day, title, platform
