-- When each of the days begins and ends in the time zone: where clocks change, a day has 23 or 25 hours.
SELECT day, to_utc_timestamp(day, ${zone}) AS begins_at, to_utc_timestamp(date_add(day, 1), ${zone}) AS ends_at
FROM (SELECT explode(${days}) AS day)
