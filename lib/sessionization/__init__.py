"""Gaming sessionization on Spark: device events in, session tables out."""
