-- The new first day of the players in `moved_first_days`; null for one who is gone. Only for those who have lost their
-- first day it looks at the days after that one.
WITH later AS (
  SELECT m.player_kind, m.player, m.title, min(p.day) AS day
  FROM (SELECT * FROM ${schema}.moved_first_days WHERE is_lost) m
  JOIN ${schema}.player_days p
    ON p.player_kind = m.player_kind AND p.player = m.player AND m.title IN ('all', p.title)
  WHERE p.day > ${first_lost_day} AND p.day NOT IN (${due})
  GROUP BY m.player_kind, m.player, m.title
)
SELECT m.player_kind, m.player, m.title, m.old_day, least(m.new_day, later.day) AS first_day
FROM ${schema}.moved_first_days m LEFT JOIN later USING (player_kind, player, title)
