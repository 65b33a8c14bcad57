"""SQL over a warehouse folder: DuckDB answers what it answers as Spark does, and Spark the rest."""
