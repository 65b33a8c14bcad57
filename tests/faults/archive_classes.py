"""Archives the classes that a job loads, so that every engine of the tests starts faster.

Spark's own loading and verifying of classes takes a fifth of the CPU time of a job that runs for a minute.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from sessionization_laptop.engine.local_session import CLASS_ARCHIVE, SILENT
from tests.support.checkpoints import last_committed
from tests.support.evening import Evening
from tests.support.harness import EVENING, FILES_PER_START, PACE, RULES, options_of
from tests.support.job import Job

_ARCHIVED_WITHIN_S = 300


def main() -> None:
    """Let a job's queries write each of their tables; its JVM writes the archive as it ends."""
    for older in CLASS_ARCHIVE.parent.glob("classes*.jsa"):  # a JVM does not read an archive and write one
        older.unlink()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        archive = folder / "classes.jsa"
        evening = Evening(folder / "staging", seed=1, duration="240s", **EVENING)
        job = Job(folder, *PACE, *options_of(RULES))
        job.jvm = (f'"-XX:ArchiveClassesAtExit={archive}" {SILENT}',)
        evening.release(job.input, FILES_PER_START)
        with job:
            job.start()
            job.wait_until(lambda: last_committed(job.checkpoints / "rollup") >= 0, "a MERGE", poll_s=0.2)
            assert job.terminate(_ARCHIVED_WITHIN_S) == 0, job.output_lines()
        if archive.exists():
            shutil.move(archive, CLASS_ARCHIVE)
    is_written = CLASS_ARCHIVE.exists()
    size = f"{CLASS_ARCHIVE.stat().st_size:,} bytes" if is_written else "no archive: this Java cannot write one"
    sys.stderr.write(f"{CLASS_ARCHIVE.name}: {size}\n")


if __name__ == "__main__":
    main()
