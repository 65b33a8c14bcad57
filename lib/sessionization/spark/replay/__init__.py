"""Archived messages once more through the parser and the core, in the micro-batches in which the stream took them."""
