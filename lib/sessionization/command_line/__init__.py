"""The command line of the jobs, and the same options as parameters of Databricks jobs."""
