"""The session rules over messages that are archived: the same core in a batch, with a simulated clock."""
