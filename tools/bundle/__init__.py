"""The bundle: its generated parts, what is wrong with it, and what a target is given before it is deployed."""
