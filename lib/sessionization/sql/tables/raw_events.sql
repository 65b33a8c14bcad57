CREATE TABLE IF NOT EXISTS ${schema}.raw_events (
  stream string NOT NULL COMMENT 'pc_sessions or console_sessions',
  partition int COMMENT 'Kafka partition; null for files and tables',
  offset bigint COMMENT 'Kafka offset, or the version to which the source table was read; null for files',
  file string COMMENT 'file that held the line; null for Kafka and tables',
  ingested_at timestamp NOT NULL COMMENT "broker timestamp, the file's modification time, or the table's column",
  value binary COMMENT 'the message as it came (of a line over 64 KiB the beginning); cast it to string',
  ingest_date date NOT NULL COMMENT 'date (UTC) on which the job took the message'
)
USING DELTA
PARTITIONED BY (ingest_date)
COMMENT 'Every message as it came, append-only, exactly once'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 168 hours',
  'delta.deletedFileRetentionDuration' = 'interval 48 hours',
  'delta.autoOptimize.autoCompact' = 'true'
);
