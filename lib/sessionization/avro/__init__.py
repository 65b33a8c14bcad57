"""Avro messages in the frame of a Confluent schema registry, as JSON: no Spark, and no event map."""
