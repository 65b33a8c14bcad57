"""The Delta tables: schemas, location, creation, merge into `sessions`, and views."""
