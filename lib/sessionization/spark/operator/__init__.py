"""The stateful operator: a processor on top of a session store."""
