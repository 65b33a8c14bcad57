"""A volume of Databricks, as far as this machine can show it."""
