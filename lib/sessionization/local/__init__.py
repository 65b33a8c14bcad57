"""What a laptop needs and a Databricks cluster brings: Java, Delta's jars, a Spark session. Never imported there."""
