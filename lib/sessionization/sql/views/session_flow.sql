-- A session's end counts once, as sessions shows it, at the last update of its row, so a correction moves it to another
-- minute. Days are UTC, as in change_date, whatever the session's time zone in Spark.
CREATE OR REPLACE VIEW ${schema}.session_flow (
  change_date COMMENT 'UTC date of the minute',
  minute COMMENT 'of processing',
  platform COMMENT 'pc, console or as the event map says',
  started COMMENT 'changes of the kind started',
  ended_reported COMMENT 'sessions that an End of theirs ended',
  ended_superseded COMMENT "sessions that the device's next Start ended",
  ended_timed_out COMMENT 'sessions that the timeout ended',
  ended_inactive COMMENT 'sessions that ended when their signs of life did',
  ended_orphaned COMMENT 'Ends without a known Start'
)
COMMENT 'Per minute (of processing) of the last week, and platform: starts, and ends by reason'
AS
SELECT change_date, minute, platform,
       count_if(is_start) AS started,
       count_if(end_reason = 'reported') AS ended_reported,
       count_if(end_reason = 'superseded') AS ended_superseded,
       count_if(end_reason = 'timed_out') AS ended_timed_out,
       count_if(end_reason = 'inactive') AS ended_inactive,
       count_if(end_reason = 'orphaned') AS ended_orphaned
FROM (
  SELECT change_date, date_trunc('MINUTE', processed_at) AS minute, platform, true AS is_start, null AS end_reason
  FROM ${schema}.session_changes
  WHERE change = 'started' AND change_date >= date_sub(current_date(), 8)
    AND processed_at >= date_trunc('MINUTE', current_timestamp() - INTERVAL 7 DAYS)
  UNION ALL
  SELECT date_from_unix_date(cast(unix_millis(updated_at) DIV 86400000 AS int)),
         date_trunc('MINUTE', updated_at), platform, false, end_reason
  FROM ${schema}.sessions
  WHERE status = 'ended' AND updated_at >= date_trunc('MINUTE', current_timestamp() - INTERVAL 7 DAYS)
)
GROUP BY 1, 2, 3;
