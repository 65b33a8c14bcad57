CREATE OR REPLACE VIEW ${schema}.device_timeline (
  device_id,
  position COMMENT 'place among the changes of the device, from 1',
  processed_at,
  session_id,
  change,
  end_reason,
  revision,
  started_at,
  ended_at,
  duration_ms,
  foreground_s,
  beat,
  missed_beats,
  due_at,
  event_at,
  account_id,
  platform${labels}
)
COMMENT 'The changes of a device in the order in which they happened; filter by device_id'
AS
SELECT device_id,
       row_number() OVER (
         PARTITION BY device_id
         ORDER BY processed_at, event_at NULLS LAST,
                  CASE WHEN change = 'started' THEN 1 WHEN starts_here THEN 2 ELSE 0 END,
                  session_id, revision) AS position,
       processed_at, session_id, change, end_reason, revision, started_at, ended_at, duration_ms, foreground_s,
       beat, missed_beats, due_at, event_at, account_id, platform${labels}
FROM (
  SELECT *, bool_or(change = 'started') OVER (
              PARTITION BY device_id, processed_at, event_at, session_id) AS starts_here
  FROM ${schema}.session_changes
);
