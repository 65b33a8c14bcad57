"""A simulated workspace for deploys: real HTTP on 127.0.0.1, everything in memory.

It answers the requests of the bundle CLI: files and folders, jobs, schemas, volumes and their grants, dashboards,
alerts, permissions, and the look-ups of names. `python -m tests.bundle.workspace` serves it to try the CLI by hand.
"""
