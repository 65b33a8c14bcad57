"""The sessions that are live, and who plays now, in Postgres, for programs that need an answer in milliseconds."""
