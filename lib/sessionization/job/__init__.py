"""The sessionize job: starts the queries, watches them, stops them, and sums up the run."""
