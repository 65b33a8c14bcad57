"""Folders of a command line that are on a mount without a server."""

import os
import stat
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from sessionization.command_line.options import locations
from sessionization.errors import ConfigurationError
from sessionization.files import describe_dead_mount, is_dead_mount
from sessionization.time_limit import CheckTimeoutError, call_within

_LIMIT_S = 60.0


def refuse_dead_mounts(settings: BaseModel) -> None:
    """Open every given folder that exists.

    Raises `ConfigurationError` where its mount is dead, or does not answer, as NFS without its server.
    """
    for name, folder in locations(settings):
        if not isinstance(folder, Path):
            continue
        place = f"--{name.replace('_', '-')} {folder}"
        try:
            call_within(_LIMIT_S, partial(_open, folder))
        except CheckTimeoutError:
            msg = f"{place} does not answer within {_LIMIT_S:g} s: see whether the server of its mount is alive"
        except OSError as error:
            if not is_dead_mount(error):
                continue
            msg = describe_dead_mount(place, error)
        else:
            continue
        msg = f"{msg}, then start again: nothing is lost"
        raise ConfigurationError(msg)


def _open(folder: Path) -> None:
    if stat.S_ISDIR(folder.stat().st_mode):
        with os.scandir(folder):
            pass
