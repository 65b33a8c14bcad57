"""Open the checkpoint of a start: an old one, which must have been created with the same settings, or a new one."""

from dataclasses import replace

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import finish_replacement, is_on_volume
from sessionization.hadoop_path import AnyPath
from sessionization.spark.checkpoint.folder import LAYOUT_FILE, QUERIES, SINK_TABLES, Checkpoint, read_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.checkpoint.spark_logs import remove_partial_first_entry


def open_checkpoint(folder: AnyPath, pinned: PinnedSettings, rules: Rules, *, warm: bool = False) -> Checkpoint:
    """Open a checkpoint, or create one; changed rules apply to micro-batches that have not started.

    With `warm` a checkpoint without a started micro-batch is warm: it will be seeded from the tables' sessions. The
    start stores that (`Checkpoint.write`) after all other checks, right before the tables are taken over. From then on
    a start without `--from-sessions` is seeded too. Until then each start decides for itself, so a refused start has
    changed nothing.

    Raises `CheckpointError` when `folder` was created with other pinned settings, holds something else or cannot
    be read, and `ConfigurationError` when it cannot be written.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _finish_replacements(folder)
        is_new = not (folder / LAYOUT_FILE).exists()
    except OSError as error:
        msg = f"--checkpoints {folder} cannot be used ({error.strerror}): give a folder that this user can write"
        raise ConfigurationError(msg) from error
    if is_new:
        if any((folder / query).exists() for query in QUERIES):
            msg = f"--checkpoints {folder} holds queries but no {LAYOUT_FILE}: restore that file, or give a new folder"
            raise CheckpointError(msg)
        checkpoint = Checkpoint.new(folder, pinned, rules)
    else:
        checkpoint = _with_same_settings(read_checkpoint(folder), pinned)
        if warm and not checkpoint.is_used:
            # A start without --from-sessions may have created this folder before, for example that of a supervisor. It
            # was refused, because another checkpoint owns the tables. So the checkpoint is as old as this start.
            checkpoint = replace(checkpoint, created_ms=wall_clock_ms())
        in_force = checkpoint.in_force.change_to(rules, checkpoint.newest_clock_ms())
        checkpoint = replace(checkpoint, in_force=in_force)
    for query in QUERIES:
        remove_partial_first_entry(folder / query)
    checkpoint.write(is_new=is_new)
    return replace(checkpoint, is_warm=True) if warm and not checkpoint.is_used else checkpoint


def _with_same_settings(checkpoint: Checkpoint, wanted: PinnedSettings) -> Checkpoint:
    """Raises `CheckpointError` where the checkpoint was created with other pinned settings."""
    if checkpoint.sink == SINK_TABLES:  # no replay can involve the old topic, so another is allowed
        checkpoint = replace(checkpoint, pinned=replace(checkpoint.pinned, output_topic=wanted.output_topic))
    stored, options = checkpoint.pinned.options(), wanted.options()
    for option, value in options.items():
        if stored[option] != value:
            msg = (
                f"--checkpoints {checkpoint.folder} was created with {option} {stored[option]}, not {value}: give the "
                "same again, or start with a new --checkpoints folder and an empty location for the tables"
            )
            raise CheckpointError(msg)
    return checkpoint


def _finish_replacements(folder: AnyPath) -> None:
    """Finish what a kill cut off in the layout file and in the logs of Spark's sources; raises `OSError`."""
    for changed in (folder, *folder.glob("*/sources/*")) if is_on_volume(folder) else ():
        finish_replacement(changed)
