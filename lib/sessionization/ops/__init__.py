"""Maintenance of the tables and the state, in jobs separate from the stream."""
