"""Messages in: from files or Kafka, parsed into events."""
