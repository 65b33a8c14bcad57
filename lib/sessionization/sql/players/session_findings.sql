-- The rows of session_findings of the days that are due: what exceeds its limit in finding_limits.
WITH parts AS (
  SELECT *, concat(device_id, '/', session_id) AS session FROM ${schema}.played_in_days
), on_two_devices AS (
  SELECT day, player FROM parts WHERE player_kind = 'account' GROUP BY day, player HAVING count(DISTINCT device_id) > 1
), at_once AS (
  SELECT p.* FROM parts p JOIN on_two_devices USING (day, player) WHERE player_kind = 'account'
), starts AS (
  SELECT *, collect_list(session) OVER (
              PARTITION BY day, device_id ORDER BY from_at
              RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW) AS recent
  FROM parts WHERE starts_here
), amounts AS (
  -- How many devices of the account are live at the instant at which one more begins to be.
  SELECT day, 'devices_at_once' AS finding, player_kind, player, NULL AS device_id, NULL AS session_id,
         max(devices) AS amount, array_sort(array_distinct(flatten(collect_list(sessions)))) AS sessions
  FROM (SELECT a.day, a.player_kind, a.player, count(DISTINCT b.device_id) AS devices,
               collect_list(b.session) AS sessions
        FROM at_once a
        JOIN at_once b ON a.day = b.day AND a.player = b.player AND b.from_at <= a.from_at AND a.from_at < b.to_at
        GROUP BY a.day, a.player_kind, a.player, a.from_at HAVING devices > 1)
  GROUP BY day, player_kind, player
  UNION ALL
  SELECT day, 'play_time', player_kind, player, NULL, NULL, sum(play_ms), array_sort(collect_list(session))
  FROM parts GROUP BY day, player_kind, player
  UNION ALL
  -- With signs of life such a session ends at the last of them.
  SELECT day, 'without_end', player_kind, player, device_id, session_id, length_ms, array(session)
  FROM parts WHERE starts_here AND (is_live OR end_reason = 'timed_out')
  UNION ALL
  SELECT day, 'many_starts', 'device', device_id, device_id, NULL, max(size(recent)), max_by(recent, size(recent))
  FROM starts GROUP BY day, device_id
  UNION ALL
  SELECT day, 'foreground', player_kind, player, device_id, session_id,
         least(foreground_s, 9000000000000000) * 1000 - length_ms, array(session)
  FROM parts WHERE starts_here AND NOT is_live AND foreground_s > length_ms DIV 1000
), limited AS (
  SELECT a.*, coalesce(own.most, of_all.most) AS most
  FROM amounts a
  LEFT JOIN ${schema}.finding_limits own
    ON own.finding = a.finding AND own.player_kind = a.player_kind AND own.player = a.player
  LEFT JOIN ${schema}.finding_limits of_all ON of_all.finding = a.finding AND of_all.player IS NULL
)
SELECT l.day, l.finding, l.player_kind, l.player, l.device_id, l.session_id,
       coalesce(known.first_seen_at, ${as_of}) AS first_seen_at, l.amount, l.most, l.sessions
FROM limited l
LEFT JOIN ${schema}.session_findings known
  ON known.day = l.day AND known.finding = l.finding AND known.player_kind = l.player_kind AND known.player = l.player
  AND known.device_id <=> l.device_id AND known.session_id <=> l.session_id
WHERE l.amount > l.most
