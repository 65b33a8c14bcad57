-- When each of the days begins and ends in the time zone: where clocks change, a day has 23 or 25 hours. A date as a
-- timestamp would depend on the session's time zone in Spark.
SELECT day, to_utc_timestamp(timestamp_seconds(86400L * unix_date(day)), ${zone}) AS begins_at,
       to_utc_timestamp(timestamp_seconds(86400L * (unix_date(day) + 1)), ${zone}) AS ends_at
FROM (SELECT explode(${days}) AS day)
