-- The rows of daily_activity: new ones of the days that are due, and those of other days with new windows.
WITH of_day AS (
  SELECT day, title, platform, dau, new_players, sessions, play_ms, foreground_ms, length_p50_ms, length_p90_ms,
         coalesce(peak_sessions, 0) AS peak_sessions, peak_minute, coalesce(ended, 0) AS ended,
         without_end / nullif(ended, 0) AS share_without_end, provisional
  FROM ${schema}.daily_players
  LEFT JOIN ${schema}.daily_lengths USING (day, title, platform)
  LEFT JOIN ${schema}.daily_peaks USING (day, title, platform)
  UNION ALL
  -- Of the days up to 27 after one that is due only WAU and MAU change.
  SELECT day, title, platform, dau, new_players, sessions, play_ms, foreground_ms, length_p50_ms, length_p90_ms,
         peak_sessions, peak_minute, ended, share_without_end, provisional
  FROM ${schema}.daily_activity
  WHERE day IN (${window_ends}) AND day NOT IN (${due})
)
SELECT day, title, platform, coalesce(dau, 0) AS dau, wau, mau, coalesce(dau, 0) / mau AS stickiness,
       coalesce(new_players, 0) AS new_players, coalesce(dau - new_players, 0) AS returning_players,
       coalesce(sessions, 0) AS sessions, sessions / nullif(dau, 0) AS sessions_per_player,
       coalesce(play_ms, 0) AS play_ms, coalesce(foreground_ms, 0) AS foreground_ms, length_p50_ms, length_p90_ms,
       coalesce(peak_sessions, 0) AS peak_sessions, peak_minute, coalesce(ended, 0) AS ended, share_without_end,
       coalesce(provisional, false) AS provisional
FROM ${schema}.windows LEFT JOIN of_day USING (day, title, platform)
WHERE mau > 0
