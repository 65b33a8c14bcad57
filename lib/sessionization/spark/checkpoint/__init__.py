"""The checkpoint folder: what it pins, its lock, Spark's own logs in it, and the backlog they show."""
