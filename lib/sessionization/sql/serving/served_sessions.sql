-- A copy of the rows of `sessions` that are live, or ended a short time ago. A program asks the views.
-- As there, a row follows from its smallest Start, its greatest end, and two instants. Here that Start and that end are
-- texts, written so that their bytes have the order that Spark gives to the fields (serving/session_rows.py).
CREATE TABLE ${schema}.served_sessions (
  device_id text COLLATE "C" NOT NULL,
  session_id ${session_id} NOT NULL,
  started_at timestamptz,
  updated_at timestamptz NOT NULL,
  first_start text COLLATE "C",
  shown_end text COLLATE "C",
  account_id text COLLATE "C" GENERATED ALWAYS AS (coalesce(${first_account_id}, ${shown_account_id})) STORED,
  platform text COLLATE "C" GENERATED ALWAYS AS (coalesce(${first_platform}, ${shown_platform})) STORED,
  ended_at timestamptz GENERATED ALWAYS AS (
    CASE WHEN ${shown_end_reason} IS NOT NULL THEN greatest(${shown_ended_at}, started_at) END
  ) STORED,
  written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ${labels}PRIMARY KEY (device_id, session_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX served_sessions_account ON ${schema}.served_sessions (account_id);
