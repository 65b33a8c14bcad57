CREATE TABLE IF NOT EXISTS ${schema}.session_predictions (
  device_id string NOT NULL COMMENT 'device, as reported',
  session_id bigint NOT NULL COMMENT 'session, as reported',
  account_id string COMMENT "account of the session's Start",
  platform string NOT NULL COMMENT 'pc, console or as the event map says',
  started_at timestamp NOT NULL COMMENT 'event time of the Start',
  as_of timestamp NOT NULL COMMENT "the instant of the forecast: the stream's newest micro-batch",
  age_ms bigint NOT NULL COMMENT 'as_of - started_at',
  remaining_p10_ms bigint NOT NULL COMMENT 'one session in ten is over within this time after as_of',
  remaining_p50_ms bigint NOT NULL COMMENT 'half of such sessions are over within this time',
  remaining_p90_ms bigint NOT NULL COMMENT 'nine in ten are over within this time',
  source string NOT NULL COMMENT 'model, or baseline where the model does not beat it',
  model_version string NOT NULL COMMENT 'version of the registered model'
)
USING DELTA
COMMENT 'How long each live session will go on, written anew by the job predict_remaining'
TBLPROPERTIES (
  'sessionization.checkpoint' = '${checkpoint}',
  'sessionization.layoutVersion' = '1',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours',
  'delta.constraints.known_source' = "source IN ('model', 'baseline')",
  'delta.constraints.quantiles_increase' =
    '0 <= remaining_p10_ms AND remaining_p10_ms <= remaining_p50_ms AND remaining_p50_ms <= remaining_p90_ms'
);
