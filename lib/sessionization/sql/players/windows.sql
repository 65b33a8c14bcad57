-- WAU and MAU. Of each player one number holds the days: bit n is set if he played n days before ${last_day}. Then the
-- 7 days of a window are the last 7 bits (127), the 28 days the last 28, and each row is read once for all windows.
WITH by_player AS (
  SELECT player_kind, player, title, platform, bit_or(shiftleft(1L, datediff(${last_day}, day))) AS days
  FROM ${schema}.player_days
  WHERE day BETWEEN date_sub(${first_day}, 27) AND ${last_day}
  GROUP BY player_kind, player, title, platform
), by_cell AS (
  SELECT player_kind, player, t.title, f.platform, bit_or(days) AS days
  FROM by_player
  LATERAL VIEW explode(array_distinct(array_compact(array('all', title)))) t AS title
  LATERAL VIEW explode(array_distinct(array('all', platform))) f AS platform
  GROUP BY player_kind, player, t.title, f.platform
), ending AS (
  SELECT day, title, platform, shiftrightunsigned(days, datediff(${last_day}, day)) AS days
  FROM by_cell CROSS JOIN (SELECT explode(array(${window_ends})) AS day)
)
SELECT day, title, platform,
       count_if(days & 127 != 0) AS wau,
       count_if(days & 268435455 != 0) AS mau
FROM ending
GROUP BY day, title, platform
