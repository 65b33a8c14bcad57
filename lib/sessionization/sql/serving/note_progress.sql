INSERT INTO ${schema}.serving_progress AS t (position, newest_at) VALUES (%s, to_timestamp(%s / 1000.0))
ON CONFLICT (is_only_row) DO UPDATE SET
  position = EXCLUDED.position,
  newest_at = greatest(t.newest_at, EXCLUDED.newest_at),
  written_at = clock_timestamp()
