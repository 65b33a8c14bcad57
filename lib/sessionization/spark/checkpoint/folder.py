"""What a checkpoint folder remembers beside Spark's own logs, and what may change when it is used again."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import write_atomically
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.checkpoint.spark_logs import (
    newest_committed_batch,
    newest_started_batch,
    read_started_batch,
    remove_partial_first_entry,
)
from sessionization.spark.checkpoint.state_layout import StateLayout

LAYOUT_FILE = "layout.json"
SESSIONIZE = "sessionize"
ARCHIVE = "archive"
ROLLUP = "rollup"
QUERIES = (SESSIONIZE, ARCHIVE, ROLLUP)
SINK_TABLES = "tables"
_STATE_VERSION = 1
"""How the state is laid out."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder that is safe to use with the settings at hand."""

    folder: Path
    id: str
    begun_ms: int
    pinned: PinnedSettings
    in_force: RulesInForce
    layout: StateLayout
    is_used: bool
    is_warm: bool = False
    """Begun with the sessions of tables that another checkpoint wrote, or to be. Kept right before they are taken over."""
    sink: str = SINK_TABLES
    """Where the changes of the newest micro-batch went, as `--sink` names it; all did before it was kept."""

    @property
    def is_taking_over(self) -> bool:
        """The tables are yet to be taken over from the checkpoint before."""
        return self.is_warm and not self.is_used

    @property
    def engine_log(self) -> Path:
        """Where a local engine logs."""
        return self.folder / "engine.log"

    @property
    def batch_log(self) -> Path:
        """Where a local run logs its micro-batches."""
        return self.folder / "batches.log"

    @property
    def progress(self) -> Path:
        """Where the rows of `stream_progress` wait."""
        return self.folder / "progress"

    def query_folder(self, query: str) -> str:
        return str(self.folder / query)

    def newest_started_batches(self) -> dict[str, int]:
        """The newest micro-batch of each query that was begun, -1 before the first."""
        return {query: newest_started_batch(self.folder / query) for query in QUERIES}

    def refuse_if_older_than(self, written: dict[str, int]) -> None:
        """Check that no table holds a micro-batch (`written`, by query) that the checkpoint does not know of.

        Raises `CheckpointError` otherwise: the queries would begin again with numbers that the tables have seen, and
        their rows would be taken for repeats and dropped. The rollup's MERGE takes repeats.
        """
        for query, known in self.newest_started_batches().items():
            batch_id = written.get(query, -1)
            if known < batch_id and query != ROLLUP:
                msg = (
                    f"--checkpoints {self.folder} knows the query {query} up to micro-batch {known}, "
                    f"but the tables hold micro-batch {batch_id}: part of the checkpoint was deleted, or it is an older "
                    "copy. Give the newest one, or a new folder, with --from-sessions or an empty location for the tables"
                )
                raise CheckpointError(msg)

    def restore_layout_file(self) -> None:
        """Read the layout again, and write it again where another start of a new folder has written its own over it.

        A volume knows no locks: two starts at the same moment may both find nothing, and make an id each. The tables name
        one of them as their owner, which is the one to call this; the other one is refused.

        Raises `CheckpointError` where a folder that was in use already has become another checkpoint's, or the layout cannot
        be read, and `ConfigurationError` where the folder cannot be written.
        """
        file = self.folder / LAYOUT_FILE
        try:
            found = json.loads(file.read_bytes())["id"] if file.exists() else None
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise _not_readable(file, error) from error
        if found == self.id:
            return
        if self.is_used:
            msg = (
                f"--checkpoints {self.folder} was {self.id} and is now {found}: restore it, and start one job at a time"
            )
            raise CheckpointError(msg)
        _save(self)

    def save_as_warm(self) -> None:
        """Keep that it begins with the tables' sessions: called before they are taken over, when all else is checked.

        From then on a start without `--from-sessions` goes on with that. Before, it is what each start says: one that was
        refused has changed nothing.

        Raises `ConfigurationError` where the folder cannot be written.
        """
        _save(self)

    def with_sink(self, sink: str) -> "Checkpoint":
        """Let the micro-batches to come send their changes to `sink`, and keep that: called when all else is checked.

        What went to the topic lands in the table without its number. Repeated into the table, it would be there twice; the
        other way round it is known by its rows.

        Raises `CheckpointError` for the tables, where a micro-batch that went to the topic is begun and not done, and
        `ConfigurationError` where the folder cannot be written.
        """
        if sink == self.sink:
            return self
        query = self.folder / SESSIONIZE
        number = newest_started_batch(query)
        if sink == SINK_TABLES and number > newest_committed_batch(query):
            msg = (
                f"--checkpoints {self.folder}: micro-batch {number} was begun with --sink {self.sink} and is not done, and "
                f"--sink {sink} could write its changes twice: start once more with --sink {self.sink}, stop gracefully, "
                "then change"
            )
            raise CheckpointError(msg)
        changed = replace(self, sink=sink)
        _save(changed)
        return changed

    def writer_id(self, query: str) -> str:
        """The name under which a query's appends are known to Delta, so that none is taken twice."""
        return f"sessionization/{self.id}/{query}"


def open_checkpoint(
    folder: Path, pinned: PinnedSettings, rules: Rules, *, keep_groups: bool = False, warm: bool = False
) -> Checkpoint:
    """Open a checkpoint, or begin a new one; changed rules hold for the micro-batches not yet begun.

    `keep_groups` takes the device groups that it was begun with, whatever `pinned` says of them. With `warm` one in which
    nothing was begun yet is to begin with the tables' sessions, which is kept by `Checkpoint.save_as_warm`.

    Raises `CheckpointError` when `folder` was begun with other pinned settings, holds something else or cannot be read, and
    `ConfigurationError` when it cannot be written.
    """
    folder = folder.absolute()
    file = folder / LAYOUT_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        known = file.read_bytes() if file.exists() else None
    except OSError as error:
        msg = f"--checkpoints {folder} cannot be used ({error.strerror}): give a folder that this user can write"
        raise ConfigurationError(msg) from error
    if known is None and any((folder / query).exists() for query in QUERIES):
        msg = f"--checkpoints {folder} holds queries but no {LAYOUT_FILE}: restore that file, or give a new folder"
        raise CheckpointError(msg)
    if known is None:
        layout = StateLayout(pinned.device_groups)
        checkpoint = Checkpoint(
            folder, uuid4().hex, wall_clock_ms(), pinned, RulesInForce(rules), layout, is_used=False
        )
    else:
        checkpoint = _known(folder, known)
        if keep_groups:
            pinned = replace(pinned, device_groups=checkpoint.pinned.device_groups)
        if checkpoint.sink == SINK_TABLES:  # nothing that a topic holds is to be repeated
            checkpoint = replace(checkpoint, pinned=replace(checkpoint.pinned, output_topic=pinned.output_topic))
        _refuse_other(folder, checkpoint.pinned, pinned)
        if warm and not checkpoint.is_used:
            # A start without --from-sessions, such as a supervisor's, has found no folder, and then the tables another's.
            checkpoint = replace(checkpoint, begun_ms=wall_clock_ms())
        last_ms = _last_micro_batch_ms(folder / SESSIONIZE)
        checkpoint = replace(checkpoint, in_force=checkpoint.in_force.followed_by(rules, last_ms))
    for query in QUERIES:
        remove_partial_first_entry(folder / query)
    _save(checkpoint)
    return replace(checkpoint, is_warm=True) if warm and not checkpoint.is_used else checkpoint


def read_checkpoint(folder: Path) -> Checkpoint:
    """What a checkpoint that was begun remembers: read only, beside the job too.

    Raises `CheckpointError` for a folder that none was begun in or that cannot be read, or whose state no version since lays
    out so.
    """
    folder = folder.absolute()
    file = folder / LAYOUT_FILE
    try:
        known = file.read_bytes()
    except FileNotFoundError as error:
        msg = f"--checkpoints {folder} holds no {LAYOUT_FILE}: give the folder that the sessionize job was given"
        raise CheckpointError(msg) from error
    except OSError as error:
        raise _not_readable(file, error) from error
    return _known(folder, known)


def _known(folder: Path, layout: bytes) -> Checkpoint:
    """The checkpoint that a layout file is of; raises `CheckpointError` where this version cannot take it for one."""
    try:
        return _read(folder, json.loads(layout))
    except (ValueError, LookupError, TypeError) as error:
        raise _not_readable(folder / LAYOUT_FILE, error) from error


def _read(folder: Path, known: dict[str, Any]) -> Checkpoint:
    pinned = PinnedSettings(**known["fixed"])
    _refuse_other_state(folder, known, pinned)
    previous = Rules(**known["previous_rules"]) if known["previous_rules"] else None
    return Checkpoint(
        folder=folder,
        id=str(known["id"]),
        begun_ms=int(known.get("begun_ms", 0)),
        pinned=pinned,
        in_force=RulesInForce(Rules(**known["rules"]), previous, known["previous_until_ms"]),
        layout=StateLayout(pinned.device_groups),
        is_used=_is_used(folder),
        is_warm=bool(known.get("is_warm")),
        sink=str(known.get("sink", SINK_TABLES)),
    )


def _not_readable(file: Path, error: Exception) -> CheckpointError:
    msg = f"{file} is not readable ({error}): restore it from a backup; without it the checkpoint cannot be checked"
    return CheckpointError(msg)


def _refuse_other(folder: Path, known: PinnedSettings, wanted: PinnedSettings) -> None:
    for (option, was), now in zip(known.options().items(), wanted.options().values(), strict=True):
        if was != now:
            msg = (
                f"--checkpoints {folder} was begun with {option} {was}, not {now}: give the same again, "
                "or start with a new --checkpoints folder and an empty location for the tables"
            )
            raise CheckpointError(msg)


def _refuse_other_state(folder: Path, known: dict[str, Any], begun_with: PinnedSettings) -> None:
    """Refuse what this version would misread: a later one's state, and device groups from before versions were kept."""
    version = known.get("state_version", 0 if begun_with.device_groups is not None else _STATE_VERSION)
    if version == _STATE_VERSION:
        return
    of_a_version = f"state of version {version}, this one knows {_STATE_VERSION}"
    holds = "device groups as no version since lays them out" if version == 0 else of_a_version
    msg = (
        f"--checkpoints {folder} holds {holds}: deploy the version that began it, or begin a new folder with "
        "--from-sessions; nothing was touched"
    )
    raise CheckpointError(msg)


def _last_micro_batch_ms(query: Path) -> int | None:
    """The clock of the newest micro-batch that was begun; None where there is none."""
    number = newest_started_batch(query)
    return None if number < 0 else read_started_batch(query, number).clock_ms


def _is_used(folder: Path) -> bool:
    return any(newest_started_batch(folder / query) >= 0 for query in QUERIES)


def _save(checkpoint: Checkpoint) -> None:
    """Write the layout file; raises `ConfigurationError` where the folder cannot be written."""
    in_force = checkpoint.in_force
    # An older version knows no option that was added since, but does what is its default.
    defaults = {field.name: field.default for field in fields(PinnedSettings)}
    pinned = {name: value for name, value in asdict(checkpoint.pinned).items() if value != defaults[name]}
    content = {
        "id": checkpoint.id,
        "begun_ms": checkpoint.begun_ms,
        "state_version": _STATE_VERSION,
        "is_warm": checkpoint.is_warm,
        "fixed": pinned,
        "rules": asdict(in_force.rules),
        "previous_rules": asdict(in_force.previous) if in_force.previous is not None else None,
        "previous_until_ms": in_force.previous_until_ms,
    }
    if checkpoint.sink == SINK_TABLES:
        pinned.pop("output_topic", None)
    else:
        content["sink"] = checkpoint.sink
    try:
        write_atomically(checkpoint.folder / LAYOUT_FILE, json.dumps(content, indent=2))
    except OSError as error:
        msg = f"--checkpoints {checkpoint.folder} cannot be written ({error.strerror}): give a folder that this user can write"
        raise ConfigurationError(msg) from error
