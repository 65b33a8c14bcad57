"""A new checkpoint that begins with the live sessions of the tables."""
