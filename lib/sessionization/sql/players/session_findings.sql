-- The rows of session_findings of the days that are due: what exceeds its limit in finding_limits.
WITH parts AS (
  SELECT *, concat(device_id, '/', session_id) AS session FROM ${schema}.played_in_days
), steps AS (
  -- Sessions of a device may overlap: it is live while at least one of them is.
  SELECT day, player, device_id, at, step, sum(step) OVER (PARTITION BY day, player, device_id ORDER BY at) AS live
  FROM (SELECT day, player, device_id, at, sum(step) AS step
        FROM parts LATERAL VIEW inline(array(struct(from_at AS at, 1 AS step), struct(to_at AS at, -1 AS step))) steps
        WHERE player_kind = 'account' AND play_ms > 0
        GROUP BY day, player, device_id, at)
), instants AS (
  SELECT day, player, at,
         sum(sum(sign(live) - sign(live - step))) OVER (PARTITION BY day, player ORDER BY at) AS devices
  FROM steps GROUP BY day, player, at
), at_once AS (
  -- Backward in time: from each instant on, when two devices are live next.
  SELECT *, min(CASE WHEN devices > 1 THEN at END) OVER (PARTITION BY day, player ORDER BY at DESC) AS next_at
  FROM instants
), starts AS (
  SELECT *, count(*) OVER (
              PARTITION BY day, device_id ORDER BY from_at
              RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW) AS recent
  FROM parts WHERE starts_here
), most_starts AS (
  SELECT day, device_id, max(recent) AS amount, min_by(from_at, struct(-recent, from_at)) AS at
  FROM starts GROUP BY day, device_id
), amounts AS (
  SELECT day, 'devices_at_once' AS finding, player_kind, player, NULL AS device_id, NULL AS session_id,
         CAST(max(devices) AS bigint) AS amount, array_sort(collect_list(session)) AS sessions
  FROM parts JOIN at_once USING (day, player)
  WHERE player_kind = 'account' AND from_at = at AND next_at < to_at
  GROUP BY day, player_kind, player
  UNION ALL
  SELECT day, 'play_time', player_kind, player, NULL, NULL, sum(play_ms), array_sort(collect_list(session))
  FROM parts GROUP BY day, player_kind, player
  UNION ALL
  -- With signs of life such a session ends at the last of them.
  SELECT day, 'without_end', player_kind, player, device_id, session_id, length_ms, array(session)
  FROM parts WHERE starts_here AND (is_live OR end_reason = 'timed_out')
  UNION ALL
  SELECT day, 'many_starts', 'device', device_id, device_id, NULL, amount, array_sort(collect_list(session))
  FROM starts JOIN most_starts USING (day, device_id)
  WHERE from_at BETWEEN at - INTERVAL 10 MINUTES AND at
  GROUP BY day, device_id, amount
  UNION ALL
  SELECT day, 'foreground', player_kind, player, device_id, session_id,
         least(foreground_s, 9000000000000000) * 1000 - length_ms, array(session)
  FROM parts WHERE starts_here AND NOT is_live AND foreground_s > length_ms DIV 1000
), limits AS (
  SELECT finding, player_kind, player, min(most) AS most FROM ${schema}.finding_limits
  GROUP BY finding, player_kind, player
), limited AS (
  SELECT a.*, coalesce(own.most, of_all.most) AS most
  FROM amounts a
  LEFT JOIN limits own
    ON own.finding = a.finding AND own.player_kind = a.player_kind AND own.player = a.player
  LEFT JOIN limits of_all ON of_all.finding = a.finding AND of_all.player IS NULL
)
SELECT l.day, l.finding, l.player_kind, l.player, l.device_id, l.session_id,
       coalesce(known.first_seen_at, ${as_of}) AS first_seen_at, l.amount, l.most, l.sessions
FROM limited l
LEFT JOIN ${schema}.session_findings known
  ON known.day = l.day AND known.finding = l.finding AND known.player_kind = l.player_kind AND known.player = l.player
  AND known.device_id <=> l.device_id AND known.session_id <=> l.session_id
WHERE l.amount > l.most
