"""The sink for files: each file appears complete, and never replaces an existing one."""

from pathlib import Path

from sessionization.clock import utc
from sessionization.errors import ConfigurationError
from sessionization.files import open_whole
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.message_schedule import Messages
from sessionization_simulator.message_text import STREAMS, by_stream, chunks


class FileSink:
    """Writes files `<output>/<stream>/<start of the run>-<number>.json`, in the order of their names.

    A file appears complete (`open_whole`). Its ingest time is its modification time: the moment of writing, at every
    pace.
    """

    step_ms = None
    """The wall clock interval between two writes; None means once per `file_interval`."""

    def __init__(self, output: Path, fleet: Fleet, now_ms: int) -> None:
        """Make the folders, and choose a file name prefix that no earlier run has used.

        Raises `ConfigurationError` when the folders cannot be made.
        """
        self._output = output
        self._fleet = fleet
        self._number = 0
        self._files = 0
        started = utc(now_ms).strftime("%Y%m%dT%H%M%S")
        self._run = base_name = f"{started}.{now_ms % 1_000:03d}Z"
        try:
            for stream in STREAMS:
                (self._output / stream.name).mkdir(parents=True, exist_ok=True)
            attempt = 1
            while any(True for stream in STREAMS for _ in (self._output / stream.name).glob(f"*{self._run}-*")):
                attempt += 1
                self._run = f"{base_name}.{attempt:03d}"
        except OSError as error:
            raise _unwritable(self._output, error) from error

    def write(self, messages: Messages) -> None:
        """Write one file per stream that has messages.

        Raises `ConfigurationError` when the folder is not writable.
        """
        name = f"{self._run}-{self._number:08d}.json"
        for stream, messages_of_stream in by_stream(messages, self._fleet):
            path = self._output / stream.name / name
            try:
                with open_whole(path, "xb") as file:
                    file.writelines(chunks(messages_of_stream, self._fleet, stream.device_field))
            except OSError as error:
                raise _unwritable(path.parent, error) from error
            self._files += 1
        self._number += 1

    def close(self) -> None:
        """Do nothing: a file is complete as soon as it is written."""

    def summary(self) -> str:
        return f"{self._files:,} files"


def _unwritable(folder: Path, error: OSError) -> ConfigurationError:
    reason = error.strerror or str(error)
    return ConfigurationError(
        f"cannot write into {str(folder)!r} ({reason}): choose another --output, or make room there"
    )
