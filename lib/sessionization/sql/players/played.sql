-- Sessions with a known Start, and who played them. A live one lasts until ${as_of}, the newest micro-batch.
SELECT CASE WHEN account_id IS NULL THEN 'device' ELSE 'account' END AS player_kind,
       coalesce(account_id, device_id) AS player, device_id, CAST(session_id AS string) AS session_id,
       ${title} AS title, platform, started_at,
       greatest(started_at, coalesce(ended_at, ${as_of})) AS until_at,
       status = 'live' AS is_live, end_reason, foreground_s,
       xxhash64(device_id, session_id) AS session_hash
FROM ${schema}.sessions
WHERE started_at IS NOT NULL AND (${condition})
