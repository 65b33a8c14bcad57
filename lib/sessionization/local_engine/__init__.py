"""A Spark engine on this machine: its Java, its jars, its session. Never imported on Databricks."""
