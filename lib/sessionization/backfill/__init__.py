"""Apply the session rules to archived messages: the stream's core in a batch, with a simulated clock."""
