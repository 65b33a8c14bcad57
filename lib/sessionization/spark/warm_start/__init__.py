"""Warm start: a new checkpoint begins with the state that the tables show."""
