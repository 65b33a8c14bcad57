"""Where the lines go: files that appear whole, and never replace one that is there."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from sessionization.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Stream:
    """One of the two streams: its folder, and the name that its messages have for the device."""

    folder: str
    device_field: str


PC = Stream("pc_sessions", "hostPcId")
CONSOLE = Stream("console_sessions", "openPsid")


class FileSink:
    """Files `<output>/<stream>/<start of the run>-<number>.json`, in the order of their names.

    A file is written under a hidden name, which the sessionize job does not read, and then renamed. Its ingest time
    is its modification time: that of the moment when it was written, at every pace.
    """

    def __init__(self, output: Path, run: str) -> None:
        self._output = output
        self._run = run
        self.files = 0
        """How many files were written so far."""

    @classmethod
    def open(cls, output: Path, now_ms: int) -> Self:
        """Make the folders, and choose a name that no earlier run has used.

        Raises `ConfigurationError` when the folders cannot be made.
        """
        started = datetime.fromtimestamp(now_ms / 1_000, UTC).strftime("%Y%m%dT%H%M%S")
        run = first = f"{started}.{now_ms % 1_000:03d}Z"
        try:
            for stream in (PC, CONSOLE):
                (output / stream.folder).mkdir(parents=True, exist_ok=True)
            again = 1
            while any(True for stream in (PC, CONSOLE) for _ in (output / stream.folder).glob(f"*{run}-*")):
                again += 1
                run = f"{first}.{again:03d}"
        except OSError as error:
            raise _unusable(output, error) from error
        return cls(output, run)

    def write(self, stream: Stream, number: int, chunks: Iterable[bytes]) -> None:
        """Write one file.

        Raises `ConfigurationError` when the folder does not take it.
        """
        name = f"{self._run}-{number:08d}.json"
        path = self._output / stream.folder / name
        hidden = path.with_name(f".{name}.tmp")
        try:
            with hidden.open("xb") as file:
                file.writelines(chunks)
            hidden.rename(path)
        except OSError as error:
            if not isinstance(error, FileExistsError):
                hidden.unlink(missing_ok=True)
            raise _unusable(path.parent, error) from error
        self.files += 1


def _unusable(folder: Path, error: OSError) -> ConfigurationError:
    reason = error.strerror or str(error)
    return ConfigurationError(
        f"cannot write into {str(folder)!r} ({reason}): choose another --output, or make room there"
    )
