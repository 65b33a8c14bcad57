-- A session's end counts once, as sessions shows it, at the last update of its row, so a correction moves it to another
-- day. Days are UTC, as in change_date, whatever the session's time zone in Spark.
CREATE OR REPLACE VIEW ${schema}.session_quality (
  day COMMENT 'UTC: of the change; of an end, of the last update of its row; of a message, of its take',
  started COMMENT 'changes of the kind started',
  ended_reported COMMENT 'sessions that an End of theirs ended',
  ended_superseded COMMENT "sessions that the device's next Start ended",
  ended_timed_out COMMENT 'sessions that the timeout ended',
  ended_inactive COMMENT 'sessions that ended when their signs of life did',
  ended_orphaned COMMENT 'Ends without a known Start',
  corrected_ends COMMENT 'ends with a revision above 0',
  resumed COMMENT 'changes of the kind resumed: sessions that were inactive and went on',
  implied_starts COMMENT 'sessions that a sign of life began, because their Start was missing',
  missed_beats COMMENT 'due instants of heartbeats that were skipped',
  quarantined COMMENT 'messages put into quarantine',
  quarantined_by_reason COMMENT 'the same by reason; null without any'
)
COMMENT 'Per day: starts, ends by reason, corrected ends, resumptions, missed beats, quarantined messages by reason'
AS
WITH changes AS (
  SELECT change_date AS day,
         count_if(change = 'started') AS started,
         count_if(change = 'ended' AND revision > 0) AS corrected_ends,
         count_if(change = 'resumed') AS resumed,
         coalesce(sum(missed_beats), 0) AS missed_beats
  FROM ${schema}.session_changes GROUP BY change_date
), ends AS (
  SELECT date_from_unix_date(cast(unix_millis(updated_at) DIV 86400000 AS int)) AS day,
         count_if(end_reason = 'reported') AS ended_reported,
         count_if(end_reason = 'superseded') AS ended_superseded,
         count_if(end_reason = 'timed_out') AS ended_timed_out,
         count_if(end_reason = 'inactive') AS ended_inactive,
         count_if(end_reason = 'orphaned') AS ended_orphaned
  FROM ${schema}.sessions WHERE status = 'ended' GROUP BY 1
), implied AS (
  SELECT date_from_unix_date(cast(unix_millis(processed_at) DIV 86400000 AS int)) AS day,
         sum(implied_starts) AS implied_starts
  FROM (SELECT processed_at, ${implied_starts} AS implied_starts FROM ${schema}.stream_progress)
  WHERE implied_starts > 0 GROUP BY 1
), refused AS (
  SELECT day, sum(messages) AS quarantined, map_from_entries(collect_list(struct(reason, messages))) AS reasons
  FROM (SELECT ingest_date AS day, reason, count(*) AS messages FROM ${schema}.quarantine GROUP BY ALL)
  GROUP BY day
)
SELECT day, coalesce(started, 0) AS started,
       coalesce(ended_reported, 0) AS ended_reported, coalesce(ended_superseded, 0) AS ended_superseded,
       coalesce(ended_timed_out, 0) AS ended_timed_out, coalesce(ended_inactive, 0) AS ended_inactive,
       coalesce(ended_orphaned, 0) AS ended_orphaned, coalesce(corrected_ends, 0) AS corrected_ends,
       coalesce(resumed, 0) AS resumed, coalesce(implied_starts, 0) AS implied_starts,
       coalesce(missed_beats, 0) AS missed_beats,
       coalesce(quarantined, 0) AS quarantined, reasons AS quarantined_by_reason
FROM changes FULL OUTER JOIN ends USING (day) FULL OUTER JOIN implied USING (day)
FULL OUTER JOIN refused USING (day);
