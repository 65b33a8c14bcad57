"""The jars that pyspark does not include, downloaded once and checked against their hashes."""

import fcntl
import sys
from configparser import ConfigParser
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

from sessionization.command_line.parser import run
from sessionization_laptop.engine import ENGINE_FOLDER


@dataclass(frozen=True, slots=True)
class Jar:
    """Maven coordinates of a file, and the SHA-256 that it must have.

    `classifier` names another file of the module, such as `all`, which includes what it needs.
    """

    organisation: str
    module: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.module}-{self.version}{suffix}.jar"

    @property
    def path(self) -> str:
        """The path of the file in a Maven repository."""
        return f"{self.organisation.replace('.', '/')}/{self.module}/{self.version}/{self.file_name}"


JarSet = Literal["spark", "broker", "hdfs", "s3", "msk"]
"""The sections of `jars.lock`: what a session needs beside pyspark; a Kafka broker; the tests' HDFS; S3's client;
the sign-in with IAM to Amazon MSK.
"""


def pinned_jars(jar_set: JarSet) -> list[Jar]:
    """Return the jars of one section of `jars.lock`."""
    lock = ConfigParser(allow_no_value=True, delimiters=(" sha256:",), interpolation=None)
    lock.optionxform = str  # type: ignore[assignment,method-assign] # names are case-sensitive
    lock.read_string((files("sessionization_laptop.engine") / "jars.lock").read_text(encoding="utf-8"))
    jars = []
    for coordinates, sha256 in lock[jar_set].items():
        organisation, module, version, *classifier = coordinates.split(":")
        jars.append(Jar(organisation, module, version, sha256, *classifier))
    return jars


def jar_paths(jar_set: JarSet) -> list[Path]:
    """Return the paths of the jars, and download the missing ones; only the first call needs the network.

    The environment variable `MAVEN_MIRROR_URL` may name a mirror.

    Raises `SetupError` when a jar cannot be downloaded or does not have the pinned hash.
    """
    jars = pinned_jars(jar_set)
    folder = ENGINE_FOLDER / "jars" / jar_set
    paths = [folder / jar.file_name for jar in jars]
    if all(path.is_file() for path in paths):  # needs no write access: the folder may belong to another user
        return paths
    from sessionization_laptop.engine.maven import fetch  # imports requests, which no job needs

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for jar, path in zip(jars, paths, strict=True):
            if not path.is_file():
                fetch(jar.path, path, jar.sha256)
    return paths


def _main() -> int:
    for jar_set in get_args(JarSet):
        if jar_set in sys.argv[1:]:
            jar_paths(jar_set)
    return 0


if __name__ == "__main__":
    run(_main, "jars")
