"""What outlives a deploy names the version of its layout; the tables do it in `sessionization/sql/tables`."""

from sessionization.errors import CheckpointError

CHECKPOINT_LAYOUT = 1
"""Raise it where the release before would misread what this one writes, or lacks what this one needs."""


def refuse_other_layout(what: str, found: object, known: object, otherwise: str) -> None:
    """Raise `CheckpointError` where something that a job would use has another layout than `known`, or names none."""
    if str(found) != str(known):
        layout = "no layout" if found is None else f"layout {found}"
        msg = f"{what} has {layout}, not {known}: deploy the release that wrote it, or {otherwise}"
        raise CheckpointError(msg)
