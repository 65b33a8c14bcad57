CREATE VIEW ${schema}.live_sessions AS
SELECT device_id, session_id, account_id, platform, started_at, updated_at, written_at${label_names}
FROM ${schema}.served_sessions
WHERE ended_at IS NULL;
