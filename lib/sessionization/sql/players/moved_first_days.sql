-- Players whose first day in a title, or in any ("all"), is another one now that some days are computed anew: the day
-- that is known, and the first of these days. Who has lost a known first day may have a later one: see `first_days`.
WITH seen AS (
  SELECT player_kind, player, title, min(day) AS new_day
  FROM (SELECT day, player_kind, player, explode(array_distinct(array_compact(array('all', title)))) AS title
        FROM ${schema}.new_player_days)
  GROUP BY player_kind, player, title
), known AS (
  SELECT player_kind, player, title, first_day AS old_day, new_day, first_day IN (${due}) AS old_is_due
  FROM ${schema}.player_first_days
  LEFT JOIN seen USING (player_kind, player, title)
  WHERE new_day IS NOT NULL OR first_day IN (${due})
)
SELECT player_kind, player, title, old_day, new_day, old_is_due AND coalesce(new_day > old_day, true) AS is_lost
FROM known
WHERE new_day < old_day OR (old_is_due AND new_day IS DISTINCT FROM old_day)
UNION ALL
SELECT player_kind, player, title, NULL, new_day, false
FROM seen LEFT ANTI JOIN known USING (player_kind, player, title)
