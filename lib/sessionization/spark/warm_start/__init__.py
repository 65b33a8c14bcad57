"""Warm start: a new checkpoint is seeded with sessions from the tables."""
