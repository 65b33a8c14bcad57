"""The files of the streams' folders: which of them hold messages, and why the others are not read."""

import os
from dataclasses import dataclass, field
from pathlib import Path

ENDINGS = tuple(f".{kind}{packed}" for kind in ("json", "jsonl", "ndjson") for packed in ("", ".gz"))
_HIDDEN = (".", "_")
OTHER_ENDING = f"do not end with {', '.join(ENDINGS)}"
FOLDER = "are folders, or no regular files"
NO_UTF8 = "have names that are no UTF-8, which Java cannot open: rename them"
COLON = "have a colon in their names, which ends the job: rename them"
UNREADABLE = "cannot be read by this user, and end the job: give it the right"


@dataclass(slots=True)
class Unread:
    """How many entries of a folder are not read for one reason, and the name of one."""

    count: int = 0
    example: str = ""


@dataclass(slots=True)
class StreamFolder:
    """What a stream's folder holds: how many files to read, and by reason the entries that are not read."""

    files: int = 0
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


def list_folder(folder: Path, *, check_rights: bool = True) -> StreamFolder:
    """List a stream's folder, without the hidden names; a folder below it costs only its name.

    A missing folder is empty. With `check_rights` each file's permissions are looked at, a call each.
    """
    found = StreamFolder()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(_HIDDEN):
                    continue
                if not entry.name.endswith(ENDINGS):
                    found.leave(FOLDER if entry.is_dir() else OTHER_ENDING, entry.name)
                elif not entry.is_file():
                    found.leave(FOLDER, entry.name)
                elif not _is_utf8(entry.name):
                    found.leave(NO_UTF8, entry.name)
                elif ":" in entry.name:
                    found.leave(COLON, entry.name)
                elif check_rights and not os.access(entry.path, os.R_OK):
                    found.leave(UNREADABLE, entry.name)
                else:
                    found.files += 1
    except FileNotFoundError:
        pass
    except OSError as error:
        found.leave(f"cannot be listed ({error.strerror})", folder.name)
    return found


def is_message_file(name: str) -> bool:
    """Whether a file of this name is read."""
    return name.endswith(ENDINGS) and not name.startswith(_HIDDEN)


def _is_utf8(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def printable(name: str) -> str:
    """A name of a file as text of one line, in which bytes that are no UTF-8 are escaped."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]
