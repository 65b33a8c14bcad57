"""The checkpoint folder: its pinned settings, its lock, Spark's own logs in it, and the backlog that they show."""
