"""The files of the streams' folders: which of them hold messages, and why the others are not read."""

import os
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

ENDINGS = tuple(f".{kind}{packed}" for kind in ("json", "jsonl", "ndjson") for packed in ("", ".gz"))
_HIDDEN = (".", "_")
OTHER_ENDING = f"do not end with {', '.join(ENDINGS)}"
FOLDER = "are folders, or no regular files"
UNREADABLE = "cannot be read by this user, and are read once they can be"


@dataclass(slots=True)
class Unread:
    """How many entries of a folder are not read for one reason, and the name of one."""

    count: int = 0
    example: str = ""


@dataclass(slots=True)
class StreamFolder:
    """What a stream's folder holds: files to read, and by reason the entries that are not read."""

    files: list["os.DirEntry[str]"] = field(default_factory=list)
    unread: dict[str, Unread] = field(default_factory=dict)

    def leave(self, reason: str, name: str) -> None:
        unread = self.unread.setdefault(reason, Unread(example=printable(name)))
        unread.count += 1

    def warnings(self, stream: str) -> dict[str, str]:
        """A line for each reason for which entries are not read, by stream and reason."""
        return {
            f"{stream} {reason}": f"{unread.count:,} entries of {stream} {reason}: {unread.example}"
            for reason, unread in self.unread.items()
        }


def list_folder(folder: Path, known: Container[str] = ()) -> StreamFolder:
    """List a stream's folder, without the hidden and the `known` names; a folder below it costs only its name.

    A missing folder is empty. One that cannot be listed, as on a dead mount, is not read.
    """
    found = StreamFolder()
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return found
    except OSError as error:
        found.leave(f"cannot be listed ({error.strerror})", folder.name)
        return found
    with entries:
        for entry in entries:
            name = entry.name
            if name in known or name.startswith(_HIDDEN):
                continue
            if not name.endswith(ENDINGS):
                found.leave(FOLDER if entry.is_dir() else OTHER_ENDING, name)
            elif not entry.is_file():
                found.leave(FOLDER, name)
            elif not os.access(entry.path, os.R_OK):
                found.leave(UNREADABLE, name)
            else:
                found.files.append(entry)
    return found


def is_message_file(name: str) -> bool:
    """Whether a file of this name is read."""
    return name.endswith(ENDINGS) and not name.startswith(_HIDDEN)


def printable(name: str) -> str:
    """A name of a file as text of one line, in which bytes that are no UTF-8 are escaped."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]
