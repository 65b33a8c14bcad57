"""A checkpoint folder without a job: opened, opened again, with micro-batches that began."""

from dataclasses import replace
from pathlib import Path

from sessionization.core.session_state import Rules
from sessionization.spark.checkpoint.folder import Checkpoint
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings

FIXED = PinnedSettings(
    "files", "/in", "/tables", None, 600_000, 604_800_000, "earliest", "micro-batch", "output_sessions"
)
RULES = Rules()
SHORTER = replace(RULES, session_timeout_ms=60_000)


def begin_micro_batch(folder: Path, number: int, clock_ms: int) -> None:
    """Write the files that Spark writes when it starts a micro-batch of the query sessionize."""
    offsets = folder / "sessionize" / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / str(number)).write_text(f'v1\n{{"batchTimestampMs":{clock_ms}}}\n{{"logOffset":0}}\n')
    (offsets / f".{number}.crc").touch()


def reopened(folder: Path, rules: Rules = RULES, fixed: PinnedSettings = FIXED) -> Checkpoint:
    return open_checkpoint(folder, fixed, rules)
