"""Stop a stream gracefully by a file, where no signal reaches its process: on Databricks, and under `spark-submit`."""

import contextlib
import threading

from py4j.protocol import Py4JError

from sessionization.hadoop_path import AnyPath
from sessionization.say import Say

STOP_FILE = "stop"
_LOOK_EVERY_S = 5.0


def stop_on_file(checkpoints: AnyPath, stop: threading.Event, say: Say, look_every_s: float = _LOOK_EVERY_S) -> None:
    """Set `stop` when somebody creates the file `stop` in `checkpoints`. A thread looks for it until `stop` is set.

    The file is deleted then, so that the next start goes on. A file from before this call was meant for an earlier run,
    and is deleted at once. Call this while the lock or the lease of `checkpoints` is held.
    """
    file = checkpoints / STOP_FILE
    if file.exists():
        file.unlink(missing_ok=True)
        say(f"{file} is from before this start, and is deleted: create it again to stop this run")

    def watch() -> None:
        while not stop.wait(look_every_s):
            with contextlib.suppress(OSError, Py4JError):  # the storage may be away for a while
                if file.exists():
                    say(f"stopping, because there is a file {file}")
                    stop.set()
                    file.unlink(missing_ok=True)

    threading.Thread(target=watch, name="stop file", daemon=True).start()
