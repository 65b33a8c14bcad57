"""Functions that the notebooks call: pictures, the tour, the live view. Runs on Databricks and on a laptop."""
