"""Monitoring of the stream in addition to its tables: a log line per micro-batch, and metrics for Prometheus."""
