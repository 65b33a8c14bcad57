"""What the notebooks call beside SQL and pandas. Runs on Databricks and on a laptop."""
