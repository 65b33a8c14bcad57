-- Of daily_activity what follows from the sessions that started on the day.
SELECT day, t.title, f.platform,
       CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY ended_length_ms) AS bigint) AS length_p50_ms,
       CAST(percentile_disc(0.9) WITHIN GROUP (ORDER BY ended_length_ms) AS bigint) AS length_p90_ms,
       count_if(NOT is_live) AS ended,
       count_if(NOT is_live AND end_reason != 'reported') AS without_end
FROM (SELECT *, CASE WHEN NOT is_live THEN length_ms END AS ended_length_ms FROM ${schema}.played_in_days)
LATERAL VIEW explode(array_distinct(array_compact(array('all', title)))) t AS title
LATERAL VIEW explode(array_distinct(array('all', platform))) f AS platform
WHERE starts_here
GROUP BY day, t.title, f.platform
