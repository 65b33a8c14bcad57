"""The jars that pyspark does not bring, fetched once and checked against their hashes."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args
from xml.sax.saxutils import quoteattr

import pyspark

from sessionization.cli import run
from sessionization.errors import SetupError
from sessionization.local.java import java_executable


@dataclass(frozen=True, slots=True)
class Jar:
    """Maven coordinates and the SHA-256 of the file that they must resolve to."""

    organisation: str
    module: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.version}.jar"


JarSet = Literal["spark", "broker"]
"""What a Spark session needs beside pyspark, and what runs a Kafka broker: the sections of `jars.lock`."""


def pinned(wanted: JarSet) -> list[Jar]:
    """The jars of one section of `jars.lock`."""
    lock = ConfigParser(allow_no_value=True, delimiters=(" sha256:",), interpolation=None)
    lock.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    lock.read_string((files("sessionization.local") / "jars.lock").read_text(encoding="utf-8"))
    jars = []
    for coordinates, sha256 in lock[wanted].items():
        organisation, module, version = coordinates.split(":")
        jars.append(Jar(organisation, module, version, sha256))
    return jars


def jar_paths(wanted: JarSet) -> list[Path]:
    """Where the jars are, fetching those that are missing; only that first call needs the network.

    `IVY_SETTINGS` in the environment may name an Ivy settings file, for a mirror.

    Raises `SetupError` when a jar cannot be fetched or is not the one that was pinned.
    """
    jars = pinned(wanted)
    folder = Path(sys.prefix) / "share" / "sessionization" / "jars" / wanted
    paths = [folder / jar.file_name for jar in jars]
    if all(path.is_file() for path in paths):  # nothing to write: the folder may be another user's
        return paths
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [jar for jar in jars if not (folder / jar.file_name).is_file()]
        if missing:
            _fetch(missing, folder)
    return paths


def _fetch(jars: Sequence[Jar], folder: Path) -> None:
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wanted = Path(scratch) / "ivy.xml"
        wanted.write_text(_ivy_file(jars), encoding="utf-8")
        command = [
            java_executable(),
            "-jar",
            str(ivy),
            "-ivy",
            str(wanted),
            "-cache",
            f"{scratch}/cache",
            "-confs",
            "default",
        ]
        if os.environ.get("IVY_SETTINGS"):
            command += ["-settings", os.environ["IVY_SETTINGS"]]
        command += ["-retrieve", f"{scratch}/[artifact]-[revision].[ext]"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        for jar in jars:
            fetched = Path(scratch) / jar.file_name
            if not fetched.is_file():
                last_line = (done.stdout + done.stderr).strip().rpartition("\n")[2]
                msg = f"{jar.file_name} could not be fetched ({last_line}): check the network or proxy, then run again"
                raise SetupError(msg)
            found = hashlib.sha256(fetched.read_bytes()).hexdigest()
            if found != jar.sha256:
                msg = f"{jar.file_name} has SHA-256 {found}, not {jar.sha256}: do not use it; ask who runs your mirror"
                raise SetupError(msg)
            shutil.move(fetched, folder / jar.file_name)


def _ivy_file(jars: Sequence[Jar]) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.module)} rev={quoteattr(jar.version)}"
        ' transitive="false" conf="default->master"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="sessionization" module="jars"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
    )


def _main() -> int:
    for wanted in get_args(JarSet):
        if wanted in sys.argv[1:]:
            jar_paths(wanted)
    return 0


if __name__ == "__main__":
    run(_main, "jars")
