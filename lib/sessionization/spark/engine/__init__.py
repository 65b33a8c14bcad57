"""The Spark session, whether its JVM lives, and what its errors mean."""
