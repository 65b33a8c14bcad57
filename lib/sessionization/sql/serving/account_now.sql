-- A live session counts up to this instant, and two at once count twice, as in player_days. There too a session without
-- a Start has no play time: greatest would let it begin today.
CREATE VIEW ${schema}.account_now AS
SELECT account_id,
       count(*) FILTER (WHERE ended_at IS NULL) AS live_sessions,
       min(started_at) FILTER (WHERE ended_at IS NULL) AS live_since,
       coalesce(sum(
         greatest(0, extract(epoch FROM coalesce(ended_at, now()) - greatest(started_at, begun.today)) * 1000)
       ) FILTER (WHERE started_at IS NOT NULL), 0)::bigint AS played_today_ms
FROM ${schema}.served_sessions
CROSS JOIN (SELECT date_trunc('day', now(), '${time_zone}') AS today) begun
WHERE account_id IS NOT NULL
GROUP BY account_id;
