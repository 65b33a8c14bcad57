"""A folder with the ways of a Databricks volume, for processes that preload a library (`volume.c`)."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.job import ENTRY, ROOT, Ended, Job, environment, run_to_end
from tests.support.topics import Topics

_WITHOUT_TABLES = ("rescale_state", "inspect_state")
_SOURCE = Path(__file__).with_name("volume.c")
LISTS_LATE_S = 2


def volume_environment(volume: Path, built: Path) -> dict[str, str]:
    """The variables with which a process sees `volume` as a volume; the library is built in the folder `built`."""
    library = built / "volume.so"
    if not library.exists():
        built.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, _SOURCE, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "VOLUME": str(volume), "VOLUME_LISTS_LATE_S": str(LISTS_LATE_S)}


def library_for(volume: Path, folder: Path) -> Path:
    """Copy the library, with `volume` in place of `/Volumes`. A patch in memory would not reach Spark's workers."""
    library = folder / "library"
    shutil.copytree(ROOT / "lib", library, ignore=shutil.ignore_patterns("__pycache__"))
    with (library / "sessionization" / "files.py").open("a", encoding="utf-8") as files:
        files.write(f"\n\nVOLUMES = Path({str(volume)!r})\n")
    return library


def run_on_volume(script: str, volume: Path, built: Path) -> "subprocess.CompletedProcess[str]":
    """Run Python code in a process of its own, which has `volume` for `/Volumes`."""
    prologue = f"from pathlib import Path\nfrom sessionization import files\nfiles.VOLUMES = Path({str(volume)!r})\n"
    words = [sys.executable, "-c", f"{prologue}VOLUME = files.VOLUMES\n{script}"]
    variables = environment(**volume_environment(volume, built))
    return subprocess.run(words, env=variables, capture_output=True, text=True, check=False, timeout=60)


class VolumeJob(Job):
    """A job whose input, tables and checkpoints lie on a volume.

    Only its own process sees a volume. Spark's engine sees a folder, as on Databricks it has a client of its own, which
    can rename; its workers only read there.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        topics: Topics | None = None,
        entry: Sequence[str | Path] = (ENTRY,),
    ) -> None:
        volume = folder / "volume"
        super().__init__(volume, *options, topics=topics, entry=entry)
        self._folder, self.stderr = folder, folder / "stderr.txt"
        self.library = folder / "library"
        if not self.library.exists():  # of another driver on the same volume
            library_for(volume, folder)
        self.variables = volume_environment(volume, folder)

    def run(self, name: str, *options: str) -> Ended:
        """Run another job's entry point on the volume until it ends."""
        entry, variables = (ROOT / "jobs" / f"{name}.py",), {"PYTHONPATH": str(self.library), **self.variables}
        return run_to_end(*options, cwd=self._folder, entry=entry, has_output=True, **variables)

    def run_beside(self, name: str, *options: str) -> Ended:
        """As `run`, of a job on these tables and checkpoints."""
        tables = () if name in _WITHOUT_TABLES else self.table_options()
        return self.run(name, *tables, "--checkpoints", str(self.checkpoints), *options)
