"""What a map understands of a sample of messages, without Spark: `jobs/preflight.py --events FILE --sample FILE`."""
