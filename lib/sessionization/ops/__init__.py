"""What is done to the tables beside the stream."""
