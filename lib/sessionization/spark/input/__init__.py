"""The input: messages from files or Kafka, parsed into events."""
