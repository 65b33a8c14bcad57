CREATE OR REPLACE VIEW ${schema}.quarantine_reasons (
  ingest_date,
  hour COMMENT 'of ingest',
  stream,
  reason,
  messages COMMENT 'messages in quarantine'
)
COMMENT 'Per hour (of ingest), stream and reason: messages in quarantine; filter by ingest_date too'
AS
SELECT ingest_date, date_trunc('HOUR', ingested_at) AS hour, stream, reason, count(*) AS messages
FROM ${schema}.quarantine
GROUP BY 1, 2, 3, 4;
