"""What the stream says of itself beside its tables: a line per micro-batch, and metrics for Prometheus."""
