-- A row for each session of `played` and each of the `days` that it touched, with the part that lies in the day. Days
-- that have not begun by ${as_of} are left out: a clock that is ahead by years would make all days until then.
WITH with_day AS (
  SELECT *, explode(sequence(date_sub(to_date(started_at), 1), date_add(to_date(until_at), 1))) AS day
  FROM ${schema}.played
), parts AS (
  SELECT p.*, d.begins_at, d.ends_at, greatest(started_at, begins_at) AS from_at, least(until_at, ends_at) AS to_at,
         started_at >= begins_at AS starts_here,
         unix_millis(until_at) - unix_millis(started_at) AS length_ms
  FROM with_day p JOIN ${schema}.days d USING (day)
  WHERE started_at < ends_at AND (until_at > begins_at OR started_at >= begins_at) AND begins_at <= ${as_of}
), measured AS (
  SELECT *, unix_millis(to_at) - unix_millis(from_at) AS play_ms,
         unix_millis(from_at) - unix_millis(started_at) AS before_ms,
         -- Of the whole session, and at most its length.
         CAST(least(length_ms, least(coalesce(foreground_s, 0), length_ms DIV 1000 + 1) * 1000) AS decimal(18, 0))
           AS whole_foreground_ms
  FROM parts
)
SELECT day, player_kind, player, title, platform, device_id, session_id, session_hash, is_live, end_reason,
       starts_here, from_at, to_at, length_ms, foreground_s, play_ms,
       -- The share up to the end of the part, less that up to its beginning: so rounding loses nothing.
       coalesce(whole_foreground_ms * (before_ms + play_ms) DIV nullif(length_ms, 0)
                - whole_foreground_ms * before_ms DIV nullif(length_ms, 0), 0) AS foreground_ms
FROM measured
