-- A row with a newer change than this may be ahead of the version that was read, and stays.
DELETE FROM ${schema}.served_sessions t
WHERE t.updated_at < to_timestamp(%s / 1000.0) AND NOT EXISTS (
  SELECT FROM incoming i
  WHERE i.device_id = t.device_id AND i.session_id = t.session_id
    AND (i.started_at, i.updated_at, i.first_start, i.shown_end)
      IS NOT DISTINCT FROM (t.started_at, t.updated_at, t.first_start, t.shown_end)
)
