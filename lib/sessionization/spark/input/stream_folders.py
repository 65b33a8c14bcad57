"""The files of the streams' folders: which of them hold messages, and why the others are not read."""

import os
from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sessionization.errors import ConfigurationError

ENDINGS = tuple(f".{kind}{packed}" for kind in ("json", "jsonl", "ndjson") for packed in ("", ".gz"))
_HIDDEN = (".", "_")
OTHER_ENDING = f"do not end with {', '.join(ENDINGS)}"
FOLDER = "are folders, or no regular files"
UNREADABLE = "cannot be read by this user, and are read once they can be"
EMPTY = "are empty, and are read once they are not"
MISSING = "missing so far"


@dataclass(slots=True)
class StreamFolder:
    """What a stream's folder holds: the path and status of each file to read, and by reason the names of the others."""

    files: list[tuple[str, os.stat_result]] = field(default_factory=list)
    unread: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def warnings(self, stream: str) -> dict[str, str]:
        """A line for each reason for which entries are not read, by stream and reason."""
        return {
            f"{stream} {reason}": f"{len(names):,} entries of {stream} {reason}: {printable(names[0])}"
            for reason, names in self.unread.items()
        }


def list_folder(folder: Path, known: Container[str] = ()) -> StreamFolder:
    """List a stream's folder, without the hidden and the `known` names; a folder below it costs only its name.

    A missing folder is empty. One that cannot be listed to its end, as on a dead mount, is named.
    """
    found = StreamFolder()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name not in known and not entry.name.startswith(_HIDDEN):
                    _look_at(entry, found)
    except FileNotFoundError:
        pass
    except OSError as error:
        found.unread[f"cannot be listed to the end ({error.strerror})"].append(folder.name)
    return found


def misplaced_files(folder: Path) -> dict[str, str]:
    """A line, under a name, where files lie in the folder of all streams itself."""
    count = len(list_folder(folder).files)
    line = f"{count:,} files lie in {folder} itself and are not read: move each into the folder of its stream"
    return {"misplaced": line} if count else {}


def describe_input(folder: Path, streams: Sequence[str]) -> str:
    """How many files each stream has, and what is not read.

    Raises `ConfigurationError` where no stream has a folder, and files lie in the folder of all streams itself.
    """
    parts = list(misplaced_files(folder).values())
    if parts and not any((folder / stream).is_dir() for stream in streams):
        msg = f"{parts[0]}, {' or '.join(str(folder / stream) for stream in streams)}"
        raise ConfigurationError(msg)
    for stream in streams:
        if (folder / stream).is_dir():
            found = list_folder(folder / stream)
            parts += [f"{stream} has {len(found.files):,} files", *found.warnings(stream).values()]
        else:
            parts.append(f"{stream} is {MISSING}")
    return "; ".join(parts)


def _look_at(entry: "os.DirEntry[str]", found: StreamFolder) -> None:
    try:
        if not entry.name.endswith(ENDINGS):
            found.unread[FOLDER if entry.is_dir() else OTHER_ENDING].append(entry.name)
        elif not entry.is_file():
            found.unread[FOLDER].append(entry.name)
        elif not os.access(entry.path, os.R_OK):
            found.unread[UNREADABLE].append(entry.name)
        elif (status := entry.stat()).st_size == 0:
            found.unread[EMPTY].append(entry.name)
        else:
            found.files.append((entry.path, status))
    except FileNotFoundError:  # it has just been deleted or renamed
        pass
    except OSError as error:  # such as a symbolic link to itself
        found.unread[f"cannot be looked at ({error.strerror})"].append(entry.name)


def is_message_file(name: str) -> bool:
    """Whether a file of this name is read."""
    return name.endswith(ENDINGS) and not name.startswith(_HIDDEN)


def printable(name: str) -> str:
    """A name of a file as text of one line, in which bytes that are no UTF-8 are escaped."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]
