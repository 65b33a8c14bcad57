-- Two ids that differ by characters that Postgres does not take are one here.
-- As `rollup` folds changes into `sessions`: the order of the changes does not matter, nor does repetition.
INSERT INTO ${schema}.served_sessions AS t (device_id, session_id, started_at, updated_at, first_start, shown_end)
SELECT device_id, session_id, min(started_at), max(updated_at), min(first_start), max(shown_end)
FROM incoming
GROUP BY device_id, session_id
ON CONFLICT (device_id, session_id) DO UPDATE SET
  started_at = least(t.started_at, EXCLUDED.started_at),
  updated_at = greatest(t.updated_at, EXCLUDED.updated_at),
  first_start = least(t.first_start, EXCLUDED.first_start),
  shown_end = greatest(t.shown_end, EXCLUDED.shown_end),
  written_at = clock_timestamp()
WHERE (t.started_at, t.updated_at, t.first_start, t.shown_end) IS DISTINCT FROM (
  least(t.started_at, EXCLUDED.started_at), greatest(t.updated_at, EXCLUDED.updated_at),
  least(t.first_start, EXCLUDED.first_start), greatest(t.shown_end, EXCLUDED.shown_end)
)
