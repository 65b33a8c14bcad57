CREATE TEMP TABLE incoming ON COMMIT DELETE ROWS AS
SELECT device_id, session_id, started_at, updated_at, first_start, shown_end FROM ${schema}.served_sessions
WITH NO DATA;
