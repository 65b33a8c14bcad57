-- Each row of player_days once for its title and once for all, and likewise for its platform.
SELECT day, player_kind, player, t.title, f.platform, sessions, play_ms, foreground_ms, provisional
FROM ${schema}.player_days
LATERAL VIEW explode(array_distinct(array_compact(array('all', title)))) t AS title
LATERAL VIEW explode(array_distinct(array('all', platform))) f AS platform
WHERE day IN (${due})
