"""The bundle: its generated parts, checks of its files, and a check of a target's values before a deploy."""
