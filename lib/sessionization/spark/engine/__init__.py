"""The Spark session, the watchdog of its JVM, and the meaning of its errors."""
