-- One row: what has been written, in the transaction that wrote it.
CREATE TABLE ${schema}.serving_progress (
  is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
  position text NOT NULL,
  newest_at timestamptz,
  written_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN ${schema}.serving_progress.position IS 'how far the changes are read; of the job alone';
COMMENT ON COLUMN ${schema}.serving_progress.newest_at IS 'when the newest change was processed that is in the views';
