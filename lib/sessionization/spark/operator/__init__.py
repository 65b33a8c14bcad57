"""The stateful operator: a processor over the session store."""
