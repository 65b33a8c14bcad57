CREATE OR REPLACE VIEW ${schema}.session_metrics
WITH METRICS LANGUAGE YAML
COMMENT 'The numbers of players, by any of the dimensions: SELECT day, MEASURE(players) FROM ... GROUP BY day'
AS $$
version: "0.1"
source: "${schema}.session_days"
dimensions:
  - {name: day, expr: day}
  - {name: title, expr: title}
  - {name: platform, expr: platform}
  - {name: end_reason, expr: end_reason}
measures:
  # Of one day they are dau, of 7 days wau, of 28 days mau.
  - name: players
    expr: count(DISTINCT player_kind, player)
  # Their first day in any title is one of the days.
  - name: new_players
    expr: count(DISTINCT player_kind, player) FILTER (WHERE is_first_day)
  # They played before one of the days.
  - name: returning_players
    expr: count(DISTINCT player_kind, player) FILTER (WHERE NOT is_first_day)
  # Those that started on one of the days.
  - name: sessions
    expr: count_if(starts_here)
  - name: sessions_per_player
    expr: count_if(starts_here) / nullif(count(DISTINCT player_kind, player), 0)
  - name: play_ms
    expr: sum(play_ms)
  - name: foreground_ms
    expr: sum(foreground_ms)
  # Of the sessions that started on one of the days, and have ended.
  - name: ended
    expr: count_if(starts_here AND NOT is_live)
  - name: length_p50_ms
    expr: >-
      CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY length_ms) FILTER (WHERE starts_here AND NOT is_live)
           AS bigint)
  - name: length_p90_ms
    expr: >-
      CAST(percentile_disc(0.9) WITHIN GROUP (ORDER BY length_ms) FILTER (WHERE starts_here AND NOT is_live)
           AS bigint)
  - name: share_without_end
    expr: >-
      count_if(starts_here AND NOT is_live AND end_reason != 'reported')
      / nullif(count_if(starts_here AND NOT is_live), 0)
$$;
