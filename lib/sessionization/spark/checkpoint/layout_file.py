"""The layout file of a checkpoint: the settings, rules and layout that the state was written with."""

import json
from dataclasses import asdict, dataclass, fields
from secrets import token_hex
from typing import Any, Self
from uuid import uuid4

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import replace_verified, write_new
from sessionization.hadoop_path import AnyPath, HadoopPath
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.checkpoint.state_layout import StateLayout

LAYOUT_FILE = "layout.json"
SINK_TABLES = "tables"
_STATE_VERSION = 1
_KEYED_STATE_VERSION = 2
"""The versions of the state's layout; the second one has a hash key. A field added at the end leaves it as it is
(docs/state.md)."""


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
    """The `--sink` of the newest micro-batch's changes; the tables, if an older version wrote the checkpoint."""

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
        """The layout from the bytes of a checkpoint's file; raises `CheckpointError` where that is impossible."""
        try:
            return cls._from_json(folder, json.loads(content))
        except (ValueError, LookupError, TypeError) as error:
            raise unreadable_layout(folder, error) from error

    @classmethod
    def _from_json(cls, folder: AnyPath, content: dict[str, Any]) -> Self:
        pinned = PinnedSettings(**content["fixed"])
        _refuse_other_state_version(folder, content, pinned)
        previous = Rules(**content["previous_rules"]) if content["previous_rules"] else None
        return cls(
            id=str(content["id"]),
            created_ms=int(content.get("begun_ms", 0)),
            pinned=pinned,
            in_force=RulesInForce(Rules(**content["rules"]), previous, content["previous_until_ms"]),
            layout=StateLayout(pinned.device_groups, str(content.get("hash_key", ""))),
            is_warm=bool(content.get("is_warm")),
            sink=str(content.get("sink", SINK_TABLES)),
        )

    def write(self, folder: AnyPath, *, is_new: bool = False) -> None:
        """Write the layout file.

        Raises `ConfigurationError` where the folder cannot be written, and `CheckpointError` where the checkpoint
        `is_new` and another start has written the file at the same moment (a URI has no lock).
        """
        # Defaults are left out: an older version rejects newer options, but behaves as their defaults say.
        defaults = {field.name: field.default for field in fields(PinnedSettings)}
        pinned = {name: value for name, value in asdict(self.pinned).items() if value != defaults[name]}
        previous = self.in_force.previous
        content = {
            "id": self.id,
            "begun_ms": self.created_ms,
            "state_version": _KEYED_STATE_VERSION if self.layout.hash_key else _STATE_VERSION,
            "is_warm": self.is_warm,
            "fixed": pinned,
            "rules": asdict(self.in_force.rules),
            "previous_rules": asdict(previous) if previous is not None else None,
            "previous_until_ms": self.in_force.previous_until_ms,
        }
        if self.layout.hash_key:
            content["hash_key"] = self.layout.hash_key
        if self.sink == SINK_TABLES:
            pinned.pop("output_topic", None)
        else:
            content["sink"] = self.sink
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


def _refuse_other_state_version(folder: AnyPath, content: dict[str, Any], stored: PinnedSettings) -> None:
    """Refuse state that this version would misread: of a later version, or device groups without a version."""
    version = content.get("state_version", 0 if stored.device_groups is not None else _STATE_VERSION)
    if version in (_STATE_VERSION, _KEYED_STATE_VERSION):
        return
    other_version = f"state of version {version}, this one knows {_KEYED_STATE_VERSION}"
    found = "device groups as no version since lays them out" if version == 0 else other_version
    msg = (
        f"--checkpoints {folder} holds {found}: deploy the version that created it, or begin a new folder with "
        "--from-sessions; nothing was touched"
    )
    raise CheckpointError(msg)
