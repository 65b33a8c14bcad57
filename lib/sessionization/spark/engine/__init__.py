"""The Spark session, its settings, and the meaning of its errors."""
