"""The versions of what outlives a deploy: the layout of a checkpoint, and the layout of the tables."""

from sessionization.errors import CheckpointError

CHECKPOINT_LAYOUT = 1
TABLES_LAYOUT = 1
"""Raise one where the release before would misread what this one writes, or lacks what this one needs."""


def refuse_other_layout(what: str, found: object, known: int, otherwise: str) -> None:
    """Raise `CheckpointError` where something that a job would use has another layout than `known`, or names none."""
    if str(found) != str(known):
        msg = f"{what} has layout {found}, not {known}: deploy the release that wrote it, or {otherwise}"
        raise CheckpointError(msg)
