-- The rows of retention of some cohorts.
WITH cohorts AS (
  SELECT first_day, player_kind, player, title
  FROM ${schema}.player_first_days WHERE first_day IN (${due})
), played AS (
  SELECT DISTINCT day, player_kind, player, explode(array_distinct(array_compact(array('all', title)))) AS title
  FROM ${schema}.player_days WHERE day IN (${return_days})
), returns AS (
  SELECT first_day, title, datediff(day, first_day) AS later
  FROM cohorts JOIN played USING (player_kind, player, title)
)
SELECT first_day AS cohort_day, title, count_if(later = 0) AS players,
       CASE WHEN date_add(first_day, 1) <= ${last_day} THEN count_if(later = 1) END AS day_1,
       CASE WHEN date_add(first_day, 3) <= ${last_day} THEN count_if(later = 3) END AS day_3,
       CASE WHEN date_add(first_day, 7) <= ${last_day} THEN count_if(later = 7) END AS day_7,
       CASE WHEN date_add(first_day, 14) <= ${last_day} THEN count_if(later = 14) END AS day_14,
       CASE WHEN date_add(first_day, 28) <= ${last_day} THEN count_if(later = 28) END AS day_28,
       CASE WHEN date_add(first_day, 30) <= ${last_day} THEN count_if(later = 30) END AS day_30
FROM returns
GROUP BY first_day, title
