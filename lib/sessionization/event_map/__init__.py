"""The event map: its fields, the paths in it, the file that it is read from, and its changes from start to start."""
