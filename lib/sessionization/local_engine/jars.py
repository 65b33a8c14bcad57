"""The jars that pyspark does not bring, fetched once and checked against their hashes."""

import fcntl
import sys
from configparser import ConfigParser
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

from sessionization.command_line.parser import run


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

    @property
    def path(self) -> str:
        """Where a Maven repository has the file."""
        return f"{self.organisation.replace('.', '/')}/{self.module}/{self.version}/{self.file_name}"


JarSet = Literal["spark", "broker"]
"""What a Spark session needs beside pyspark, and what runs a Kafka broker: the sections of `jars.lock`."""


def pinned(wanted: JarSet) -> list[Jar]:
    """The jars of one section of `jars.lock`."""
    lock = ConfigParser(allow_no_value=True, delimiters=(" sha256:",), interpolation=None)
    lock.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    lock.read_string((files("sessionization.local_engine") / "jars.lock").read_text(encoding="utf-8"))
    jars = []
    for coordinates, sha256 in lock[wanted].items():
        organisation, module, version = coordinates.split(":")
        jars.append(Jar(organisation, module, version, sha256))
    return jars


def jar_paths(wanted: JarSet) -> list[Path]:
    """Where the jars are, fetching those that are missing; only that first call needs the network.

    `MAVEN_MIRROR_URL` in the environment may name a mirror.

    Raises `SetupError` when a jar cannot be fetched or is not the one that was pinned.
    """
    jars = pinned(wanted)
    folder = Path(sys.prefix) / "share" / "sessionization" / "jars" / wanted
    paths = [folder / jar.file_name for jar in jars]
    if all(path.is_file() for path in paths):  # nothing to write: the folder may be another user's
        return paths
    from sessionization.local_engine.maven import MavenRepository  # brings requests, which no job needs

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with MavenRepository() as repository:
            for jar, path in zip(jars, paths, strict=True):
                if not path.is_file():
                    repository.fetch(jar.path, path, jar.sha256)
    return paths


def _main() -> int:
    for wanted in get_args(JarSet):
        if wanted in sys.argv[1:]:
            jar_paths(wanted)
    return 0


if __name__ == "__main__":
    run(_main, "jars")
