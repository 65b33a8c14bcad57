"""Laptop replacements for what a Databricks workspace provides. Never imported on Databricks."""
