-- The rows of player_days.
SELECT n.*, f.first_day IS NOT NULL AS is_first_day
FROM ${schema}.new_player_days n
LEFT JOIN (
  SELECT first_day, player_kind, player FROM ${schema}.player_first_days
  WHERE title = 'all' AND first_day IN (${due})
) f ON f.first_day = n.day AND f.player_kind = n.player_kind AND f.player = n.player
