-- The days that the changed sessions touch now, and those that they touched when player_days was written.
SELECT DISTINCT day FROM ${schema}.played_in_days
UNION
SELECT DISTINCT day
FROM (SELECT day, explode(_sessions) AS session_hash FROM ${schema}.player_days WHERE day >= ${first_day})
LEFT SEMI JOIN ${schema}.played USING (session_hash)
