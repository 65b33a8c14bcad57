"""The options of jobs that several packages share, checked once."""
