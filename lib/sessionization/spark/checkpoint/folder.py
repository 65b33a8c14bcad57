"""A checkpoint folder: Spark's own logs, a layout file next to them, and the changes that these allow."""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import appendable, finish_replacement, is_on_volume
from sessionization.hadoop_path import AnyPath
from sessionization.spark.checkpoint.layout_file import LAYOUT_FILE, SINK_TABLES, StoredLayout, unreadable_layout
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.checkpoint.spark_logs import (
    newest_committed_batch,
    newest_started_batch,
    read_started_batch,
    remove_partial_first_entry,
)

SESSIONIZE = "sessionize"
ARCHIVE = "archive"
ROLLUP = "rollup"
QUERIES = (SESSIONIZE, ARCHIVE, ROLLUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(StoredLayout):
    """A checkpoint folder that is safe to use with the given settings."""

    folder: AnyPath
    is_used: bool

    @classmethod
    def with_layout(cls, folder: AnyPath, stored: StoredLayout) -> Self:
        layout = {field.name: getattr(stored, field.name) for field in fields(StoredLayout)}
        return cls(folder=folder, is_used=_is_used(folder), **layout)

    @property
    def is_taking_over(self) -> bool:
        """True while the tables still have to be taken over from the previous checkpoint."""
        return self.is_warm and not self.is_used

    @property
    def progress_folder(self) -> AnyPath:
        """The folder in which rows wait until they are appended to `stream_progress`."""
        return self.folder / "progress"

    def query_folder(self, query: str) -> str:
        return str(self.folder / query)

    def newest_started_batches(self) -> dict[str, int]:
        """Return each query's newest started micro-batch, -1 before the first."""
        return {query: newest_started_batch(self.folder / query) for query in QUERIES}

    def newest_clock_ms(self) -> int | None:
        """Return the clock of the newest started micro-batch of `sessionize`; None before the first."""
        return _last_micro_batch_ms(self.folder / SESSIONIZE)

    def state_partitions(self) -> int | None:
        """Return the number of state partitions, which the first micro-batch fixes; None before that."""
        query = self.folder / SESSIONIZE
        batch_id = newest_started_batch(query)
        return None if batch_id < 0 else read_started_batch(query, batch_id).partitions

    def refuse_if_older_than(self, written: dict[str, int]) -> None:
        """Check that the checkpoint knows the newest micro-batch that the tables hold (`written`, by query).

        Raises `CheckpointError` otherwise: the queries would use the tables' batch numbers again, and their rows
        would be lost or doubled. The rollup is exempt, because its MERGE accepts repeats.
        """
        for query, known in self.newest_started_batches().items():
            batch_id = written.get(query, -1)
            if known < batch_id and query != ROLLUP:
                msg = (
                    f"--checkpoints {self.folder} knows the query {query} up to micro-batch {known}, "
                    f"but the tables hold micro-batch {batch_id}: part of the checkpoint was deleted, or it is "
                    "an older copy. Give the newest one, or a new folder, "
                    "with --from-sessions or an empty location for the tables"
                )
                raise CheckpointError(msg)

    def restore_layout_file(self) -> None:
        """Read the layout file again, and rewrite it if another start of a new folder has overwritten it.

        A volume has no locks: two simultaneous starts may both find an empty folder, and each create an id. The
        tables name one of the ids as their owner. The start with this id calls this method; the other start is
        refused.

        Raises `CheckpointError` where a used folder now holds another checkpoint's layout, or the layout cannot be
        read, and `ConfigurationError` where the folder cannot be written.
        """
        file = self.folder / LAYOUT_FILE
        try:
            found = json.loads(file.read_bytes())["id"] if file.exists() else None
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise unreadable_layout(self.folder, error) from error
        if found == self.id:
            return
        if self.is_used:
            msg = (
                f"--checkpoints {self.folder} was {self.id} and is now {found}: restore it, and start one job at a time"
            )
            raise CheckpointError(msg)
        self.write(self.folder)

    def save_as_warm(self) -> None:
        """Store that this checkpoint is seeded from the tables' sessions.

        The start calls this after all other checks, right before the tables are taken over. From then on a start
        without `--from-sessions` is seeded too. Until then each start decides for itself, so a refused start has
        changed nothing.

        Raises `ConfigurationError` where the folder cannot be written.
        """
        self.write(self.folder)

    def with_sink(self, sink: str) -> "Checkpoint":
        """Send the changes of future micro-batches to `sink`, and store that; called after all other checks.

        Changes from the topic land in the table without their micro-batch number. A replay into the table would
        therefore write them twice. A replay from the table to the topic is safe: the landing recognises the rows.

        Raises `CheckpointError` if `sink` is the tables and a micro-batch that went to the topic is started but
        not committed, and `ConfigurationError` where the folder cannot be written.
        """
        if sink == self.sink:
            return self
        query = self.folder / SESSIONIZE
        batch_id = newest_started_batch(query)
        if sink == SINK_TABLES and batch_id > newest_committed_batch(query):
            msg = (
                f"--checkpoints {self.folder}: micro-batch {batch_id} was created with --sink {self.sink} "
                f"and is not done, and --sink {sink} could write its changes twice: "
                f"start once more with --sink {self.sink}, stop gracefully, then change"
            )
            raise CheckpointError(msg)
        changed = replace(self, sink=sink)
        changed.write(self.folder)
        return changed

    def writer_id(self, query: str) -> str:
        """Return the application id of a query's appends: a table takes each of them once (`SinkContext`)."""
        return f"sessionization/{self.id}/{query}"


def engine_log(folder: AnyPath) -> Path | None:
    """The log file of a local engine; None at a URI, which needs the engine beforehand, and on a volume."""
    path = appendable(folder)
    return None if path is None else path.absolute() / "engine.log"


def open_checkpoint(folder: AnyPath, pinned: PinnedSettings, rules: Rules, *, warm: bool = False) -> Checkpoint:
    """Open a checkpoint, or create one; changed rules apply to micro-batches that have not started.

    With `warm` a checkpoint without a started micro-batch will be seeded from the tables' sessions;
    `Checkpoint.save_as_warm` stores that.

    Raises `CheckpointError` when `folder` was created with other pinned settings, holds something else or cannot
    be read, and `ConfigurationError` when it cannot be written.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _finish_replacements(folder)
    except OSError as error:
        raise _unusable(folder, error) from error
    found = find_checkpoint(folder, pinned)
    if found is None:
        checkpoint = Checkpoint.with_layout(folder, StoredLayout.new(pinned, rules))
    else:
        checkpoint = found
        if warm and not checkpoint.is_used:
            # A start without --from-sessions may have created this folder before, for example that of a supervisor. It
            # was refused, because another checkpoint owns the tables. So the checkpoint is as old as this start.
            checkpoint = replace(checkpoint, created_ms=wall_clock_ms())
        last_ms = _last_micro_batch_ms(folder / SESSIONIZE)
        checkpoint = replace(checkpoint, in_force=checkpoint.in_force.change_to(rules, last_ms))
    for query in QUERIES:
        remove_partial_first_entry(folder / query)
    checkpoint.write(folder, is_new=found is None)
    return replace(checkpoint, is_warm=True) if warm and not checkpoint.is_used else checkpoint


def find_checkpoint(folder: AnyPath, pinned: PinnedSettings) -> Checkpoint | None:
    """Read a checkpoint that these settings may use; None where there is none yet. Nothing is written.

    Raises `CheckpointError` when `folder` was created with other pinned settings, holds something else or cannot be
    read, and `ConfigurationError` when it is no folder to use.
    """
    folder = folder.absolute()
    file = folder / LAYOUT_FILE
    try:
        stored_layout = file.read_bytes() if file.exists() else None
    except OSError as error:
        raise _unusable(folder, error) from error
    if stored_layout is None:
        if any((folder / query).exists() for query in QUERIES):
            msg = f"--checkpoints {folder} holds queries but no {LAYOUT_FILE}: restore that file, or give a new folder"
            raise CheckpointError(msg)
        return None
    checkpoint = Checkpoint.with_layout(folder, StoredLayout.parse(folder, stored_layout))
    if checkpoint.sink == SINK_TABLES:  # no replay can involve the old topic, so another is allowed
        checkpoint = replace(checkpoint, pinned=replace(checkpoint.pinned, output_topic=pinned.output_topic))
    _refuse_other_settings(folder, checkpoint.pinned, pinned)
    return checkpoint


def _finish_replacements(folder: AnyPath) -> None:
    """Finish what a kill cut off in the layout file and in the logs of Spark's sources; raises `OSError`."""
    for changed in (folder, *folder.glob("*/sources/*")) if is_on_volume(folder) else ():
        finish_replacement(changed)


def _unusable(folder: AnyPath, error: OSError) -> ConfigurationError:
    msg = f"--checkpoints {folder} cannot be used ({error.strerror}): give a folder that this user can write"
    return ConfigurationError(msg)


def read_checkpoint(folder: AnyPath) -> Checkpoint:
    """Read an existing checkpoint; safe while the job runs, because nothing is written.

    Raises `CheckpointError` for a folder without a checkpoint, one that cannot be read, or one whose state has the
    layout of another version.
    """
    folder = folder.absolute()
    file = folder / LAYOUT_FILE
    try:
        content = file.read_bytes()
    except FileNotFoundError as error:
        msg = f"--checkpoints {folder} holds no {LAYOUT_FILE}: give the folder that the sessionize job was given"
        raise CheckpointError(msg) from error
    except OSError as error:
        raise unreadable_layout(folder, error) from error
    return Checkpoint.with_layout(folder, StoredLayout.parse(folder, content))


def _refuse_other_settings(folder: AnyPath, stored: PinnedSettings, wanted: PinnedSettings) -> None:
    for (option, stored_value), value in zip(stored.options().items(), wanted.options().values(), strict=True):
        if stored_value != value:
            msg = (
                f"--checkpoints {folder} was created with {option} {stored_value}, not {value}: give the same again, "
                "or start with a new --checkpoints folder and an empty location for the tables"
            )
            raise CheckpointError(msg)


def _last_micro_batch_ms(query: AnyPath) -> int | None:
    """Return the clock of the newest started micro-batch; None before the first."""
    batch_id = newest_started_batch(query)
    return None if batch_id < 0 else read_started_batch(query, batch_id).clock_ms


def _is_used(folder: AnyPath) -> bool:
    return any(newest_started_batch(folder / query) >= 0 for query in QUERIES)
