"""The command line of the jobs, and how Databricks hands over the same options."""
