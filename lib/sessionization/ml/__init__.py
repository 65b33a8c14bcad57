"""MLflow: runs of the stream, stored and compared; and a model of how long a live session will go on."""
