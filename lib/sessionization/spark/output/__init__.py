"""The output of each query per micro-batch: its rows, and the row of `stream_progress` that records it."""
