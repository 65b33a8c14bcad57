"""The rules on Spark: sources, parsing, the stateful operator, Delta tables and the three queries."""
