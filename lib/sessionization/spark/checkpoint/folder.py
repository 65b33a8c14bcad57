"""A checkpoint folder: Spark's own logs, the layout file next to them, and the changes that these allow."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Self
from uuid import uuid4

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.event_map.changes import differences, refuse_other_ids
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, stored_map
from sessionization.files import appendable, replace_verified, write_new
from sessionization.hadoop_path import AnyPath, HadoopPath
from sessionization.layout_version import CHECKPOINT_LAYOUT, refuse_other_layout
from sessionization.say import Say
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.checkpoint.spark_logs import (
    newest_committed_batch,
    newest_started_batch,
    read_started_batch,
)
from sessionization.spark.checkpoint.state_layout import StateLayout

SESSIONIZE = "sessionize"
ARCHIVE = "archive"
ROLLUP = "rollup"
QUERIES = (SESSIONIZE, ARCHIVE, ROLLUP)
LAYOUT_FILE = "layout.json"
"""The file with the settings, rules and layout that the state was written with."""
SINK_TABLES = "tables"
EVENTS, LABELS = "events", "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint folder that is safe to use with the given settings. All but its first two fields are stored."""

    folder: AnyPath
    is_used: bool
    id: str
    created_ms: int
    pinned: PinnedSettings
    in_force: RulesInForce
    layout: StateLayout
    is_warm: bool = False
    """True if this checkpoint was, or will be, seeded from another checkpoint's tables.

    Stored right before the tables are taken over.
    """
    sink: str = SINK_TABLES
    """The `--sink` of the newest micro-batch's changes."""
    events: EventMap | None = None
    """The event map of the newest start; None before the first."""

    @classmethod
    def new(cls, folder: AnyPath, pinned: PinnedSettings, rules: Rules) -> Self:
        """A new checkpoint: with a new id, and with a new hash key where devices are grouped."""
        return cls(
            folder=folder,
            is_used=_is_used(folder),
            id=uuid4().hex,
            created_ms=wall_clock_ms(),
            pinned=pinned,
            in_force=RulesInForce(rules),
            layout=StateLayout(pinned.device_groups, "" if pinned.device_groups is None else token_hex(16)),
        )

    @classmethod
    def parse(cls, folder: AnyPath, content: bytes) -> Self:
        """The checkpoint from the bytes of its layout file.

        Raises `CheckpointError` where that is impossible, or where the checkpoint has the layout of another release.
        """
        try:
            stored: dict[str, Any] = json.loads(content)
            refuse_other_layout(
                f"--checkpoints {folder}",
                stored.get("layout_version"),
                CHECKPOINT_LAYOUT,
                "begin a new folder, with --from-sessions if the tables have a layout too; nothing was touched",
            )
            pinned, events = PinnedSettings(**stored["pinned"]), stored_map(stored.get(EVENTS, DEFAULT))
            has_text_ids = events is not None and events.has_text_ids
            labels = tuple(stored.get(LABELS, ()))
            previous = Rules(**stored["previous_rules"]) if stored["previous_rules"] else None
            return cls(
                folder=folder,
                is_used=_is_used(folder),
                id=str(stored["id"]),
                created_ms=int(stored["created_ms"]),
                pinned=pinned,
                in_force=RulesInForce(Rules(**stored["rules"]), previous, stored["previous_until_ms"]),
                layout=StateLayout(pinned.device_groups, str(stored["hash_key"]), has_text_ids, labels),
                is_warm=bool(stored["is_warm"]),
                sink=str(stored["sink"]),
                events=events,
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise _unreadable(folder, error) from error

    def write(self, *, is_new: bool = False) -> None:
        """Write the layout file.

        Raises `ConfigurationError` where the folder cannot be written, and `CheckpointError` where the checkpoint
        `is_new` and another start has written the file at the same moment (a URI has no lock).
        """
        folder, previous = self.folder, self.in_force.previous
        content = {
            "layout_version": CHECKPOINT_LAYOUT,
            "id": self.id,
            "created_ms": self.created_ms,
            "is_warm": self.is_warm,
            "sink": self.sink,
            EVENTS: None if self.events is None else self.events.stored(),
            LABELS: self.layout.labels,
            "pinned": asdict(self.pinned),
            "hash_key": self.layout.hash_key,
            "rules": _stored_rules(self.in_force.rules),
            "previous_rules": _stored_rules(previous) if previous is not None else None,
            "previous_until_ms": self.in_force.previous_until_ms,
        }
        # On a volume a part of a file may be left by a kill, so a copy lies beside a new one too.
        write_text = write_new if is_new and isinstance(folder, HadoopPath) else replace_verified
        try:
            write_text(folder / LAYOUT_FILE, json.dumps(content, indent=2))
        except FileExistsError as error:
            msg = f"another start has just begun a checkpoint in --checkpoints {folder}: stop it, or start again later"
            raise CheckpointError(msg) from error
        except OSError as error:
            msg = f"--checkpoints {folder} cannot be written ({error.strerror}): give a folder that this user can write"
            raise ConfigurationError(msg) from error

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
        batch_id = newest_started_batch(self.folder / SESSIONIZE)
        return None if batch_id < 0 else read_started_batch(self.folder / SESSIONIZE, batch_id).clock_ms

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
            raise _unreadable(self.folder, error) from error
        if found == self.id:
            return
        if self.is_used:
            msg = (
                f"--checkpoints {self.folder} was {self.id} and is now {found}: restore it, and start one job at a time"
            )
            raise CheckpointError(msg)
        self.write()

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
        changed.write()
        return changed

    def with_events(self, events: EventMap, say: Say) -> "Checkpoint":
        """Remember an event map for future micro-batches; `say` prints what differs from the one before.

        Raises `CheckpointError` where a stream is gone or has other paths of ids, and `ConfigurationError` where the
        folder cannot be written.
        """
        if events == self.events:
            return self
        if self.events is not None:
            try:
                refuse_other_ids(events, self.events)
            except ValueError as error:
                msg = (
                    f"--checkpoints {self.folder} was created with another event map: {error}; give such an --events "
                    "again, or start with a new --checkpoints folder and an empty location for the tables"
                )
                raise CheckpointError(msg) from None
            for line in differences(events, self.events):
                say(f"the event map is another one than at the last start: {line}")
        read_checkpoint(self.folder).with_layout_of(events).write()  # without what is not yet stored
        return self.with_layout_of(events)

    def with_layout_of(self, events: EventMap, tables_labels: tuple[str, ...] = ()) -> "Checkpoint":
        """The layout for an event map: its label columns are the last of all that were known. It stores nothing."""
        labels = events.label_columns(tables_labels or self.layout.labels)
        return replace(
            self, events=events, layout=replace(self.layout, has_text_ids=events.has_text_ids, labels=labels)
        )

    def writer_id(self, query: str) -> str:
        """Return the application id of a query's appends: a table takes each of them once (`SinkContext`)."""
        return f"sessionization/{self.id}/{query}"


def engine_log(folder: AnyPath) -> Path | None:
    """The log file of a local engine; None at a URI, which needs the engine beforehand, and on a volume."""
    path = appendable(folder)
    return None if path is None else path.absolute() / "engine.log"


def read_checkpoint(folder: AnyPath) -> Checkpoint:
    """Read an existing checkpoint; safe while the job runs, because nothing is written.

    Raises `CheckpointError` for a folder without a checkpoint, one that cannot be read, or one whose state has the
    layout of another version.
    """
    folder = folder.absolute()
    try:
        content = (folder / LAYOUT_FILE).read_bytes()
    except FileNotFoundError as error:
        msg = f"--checkpoints {folder} holds no {LAYOUT_FILE}: give the folder that the sessionize job was given"
        raise CheckpointError(msg) from error
    except OSError as error:
        raise _unreadable(folder, error) from error
    return Checkpoint.parse(folder, content)


def _stored_rules(rules: Rules) -> dict[str, int]:
    """The rules that are set: a release without `inactivity_timeout` reads the file of a job that does not use it."""
    return {name: value for name, value in asdict(rules).items() if value is not None}


def _unreadable(folder: AnyPath, error: Exception) -> CheckpointError:
    msg = (
        f"{folder / LAYOUT_FILE} is not readable ({error}): restore it from a backup; "
        "without it the checkpoint cannot be checked"
    )
    return CheckpointError(msg)


def _is_used(folder: AnyPath) -> bool:
    return any(newest_started_batch(folder / query) >= 0 for query in QUERIES)
