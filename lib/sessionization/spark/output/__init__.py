"""Changes out: what each query writes per micro-batch, and the row that records it."""
