"""What a cluster installs from a package index: in the versions of the locks, with which everything has been tested."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache

from tools.bundle.sources import ROOT

_LOCKS = ("requirements.lock", "requirements-notebooks.lock")
_PINNED = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?P<marker> ;[^\\]*)?")
_ASKED_BY = re.compile(r"^    #(?: via)? +(?P<name>[a-z0-9-]+)")
_NAME = re.compile(r"[a-z0-9-]+")


@dataclass(slots=True)
class Locked:
    """A package of a lock: its version, whether a cluster's Linux needs it, and which packages ask for it."""

    version: str
    is_for_linux: bool
    asked_by: set[str]


@cache
def locked() -> dict[str, Locked]:
    """The packages of the locks by name; what two of them hold is the same in both."""
    packages: dict[str, Locked] = {}
    for lock in _LOCKS:
        package = None
        for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
            if found := _PINNED.match(line):
                is_for_linux = "win32" not in (found["marker"] or "")
                package = packages.setdefault(found["name"], Locked(found["version"], is_for_linux, set()))
            elif package is not None and (asked := _ASKED_BY.match(line)):
                package.asked_by.add(asked["name"])
    return packages


@cache
def needed_by_the_wheel(extras: frozenset[str] = frozenset()) -> frozenset[str]:
    """What the wheel with some extras asks for, and what these packages ask for in turn."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked_for = [
        *project["dependencies"],
        *(name for extra in extras for name in project["optional-dependencies"][extra]),
    ]
    needed: set[str] = set()
    more = {match[0] for asked in asked_for if (match := _NAME.match(asked))}
    while more:
        needed |= more
        more = {name for name, package in locked().items() if package.is_for_linux and package.asked_by & needed}
        more -= needed
    return frozenset(needed)
