"""The session rules in plain Python: no Spark, no clock, no input or output."""
