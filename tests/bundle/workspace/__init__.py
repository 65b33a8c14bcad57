"""A workspace on this machine, as far as a deploy sees one: real HTTP on 127.0.0.1, everything in memory.

It plays what the bundle CLI asks for: files and folders, jobs, schemas, volumes and their grants, dashboards, alerts,
permissions, and the look-ups of names. `python -m tests.bundle.workspace` lets a person try the CLI on it.
"""
