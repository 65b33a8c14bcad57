"""The layout file of a checkpoint: the settings, rules and layout that the state was written with."""

import json
from dataclasses import asdict, dataclass
from secrets import token_hex
from typing import Any, Self
from uuid import uuid4

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import replace_verified, write_new
from sessionization.hadoop_path import AnyPath, HadoopPath
from sessionization.layout_version import CHECKPOINT_LAYOUT, refuse_other_layout
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.checkpoint.state_layout import StateLayout

LAYOUT_FILE = "layout.json"
SINK_TABLES = "tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLayout:
    """What the layout file stores."""

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

    @classmethod
    def new(cls, pinned: PinnedSettings, rules: Rules) -> Self:
        """The layout of a new checkpoint: with a new id, and with a new hash key where devices are grouped."""
        return cls(
            id=uuid4().hex,
            created_ms=wall_clock_ms(),
            pinned=pinned,
            in_force=RulesInForce(rules),
            layout=StateLayout(pinned.device_groups, "" if pinned.device_groups is None else token_hex(16)),
        )

    @classmethod
    def parse(cls, folder: AnyPath, content: bytes) -> Self:
        """The layout from the bytes of a checkpoint's file.

        Raises `CheckpointError` where that is impossible, or where the checkpoint has the layout of another release.
        """
        try:
            fields = json.loads(content)
            refuse_other_layout(
                f"--checkpoints {folder}",
                fields.get("layout_version"),
                CHECKPOINT_LAYOUT,
                "begin a new folder, with --from-sessions if the tables have a layout too; nothing was touched",
            )
            return cls._from_json(fields)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise unreadable_layout(folder, error) from error

    @classmethod
    def _from_json(cls, content: dict[str, Any]) -> Self:
        pinned = PinnedSettings(**content["pinned"])
        previous = Rules(**content["previous_rules"]) if content["previous_rules"] else None
        return cls(
            id=str(content["id"]),
            created_ms=int(content["created_ms"]),
            pinned=pinned,
            in_force=RulesInForce(Rules(**content["rules"]), previous, content["previous_until_ms"]),
            layout=StateLayout(pinned.device_groups, str(content["hash_key"])),
            is_warm=bool(content["is_warm"]),
            sink=str(content["sink"]),
        )

    def write(self, folder: AnyPath, *, is_new: bool = False) -> None:
        """Write the layout file.

        Raises `ConfigurationError` where the folder cannot be written, and `CheckpointError` where the checkpoint
        `is_new` and another start has written the file at the same moment (a URI has no lock).
        """
        previous = self.in_force.previous
        content = {
            "layout_version": CHECKPOINT_LAYOUT,
            "id": self.id,
            "created_ms": self.created_ms,
            "is_warm": self.is_warm,
            "sink": self.sink,
            "pinned": asdict(self.pinned),
            "hash_key": self.layout.hash_key,
            "rules": asdict(self.in_force.rules),
            "previous_rules": asdict(previous) if previous is not None else None,
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


def unreadable_layout(folder: AnyPath, error: Exception) -> CheckpointError:
    msg = (
        f"{folder / LAYOUT_FILE} is not readable ({error}): restore it from a backup; "
        "without it the checkpoint cannot be checked"
    )
    return CheckpointError(msg)
