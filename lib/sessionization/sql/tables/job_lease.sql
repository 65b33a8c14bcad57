CREATE TABLE IF NOT EXISTS ${schema}.job_lease (
  name string NOT NULL COMMENT 'what is leased',
  owner string COMMENT 'id of the run that holds it; null once that run has given it up',
  job string NOT NULL COMMENT 'the program that took it last',
  host string NOT NULL COMMENT 'the host of that program',
  pid bigint NOT NULL COMMENT 'the process of that program on its host',
  pid_scope string COMMENT 'boot and container in which the ids of the processes hold; null if unknown',
  engine_pid bigint COMMENT 'the process of its engine on the same host; null if unknown',
  since timestamp NOT NULL COMMENT 'when it was taken',
  until timestamp NOT NULL COMMENT 'when it ends or has ended; the holder renews it before'
)
USING DELTA
-- A run writes the file of its own lease alone, so it conflicts only with a run that takes the same one.
PARTITIONED BY (name)
COMMENT 'One row per lease: which run may work on the tables, and until when'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours',
  'delta.isolationLevel' = 'Serializable',
  -- A renewal writes one row; a mark of a deletion next to it would be a second file.
  'delta.enableDeletionVectors' = 'false'
);
