"""The job itself: start the queries, watch them, stop them, and sum up what they did."""
