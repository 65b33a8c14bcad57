-- The rows of player_days, without is_first_day, which follows from all other days of the player.
SELECT day, player_kind, player, title, platform,
       count_if(starts_here) AS sessions,
       sum(play_ms) AS play_ms,
       sum(foreground_ms) AS foreground_ms,
       min(from_at) AS first_at,
       max(to_at) AS last_at,
       bool_or(is_live) AS provisional,
       array_sort(collect_list(session_hash)) AS _sessions
FROM ${schema}.played_in_days
GROUP BY day, player_kind, player, title, platform
