"""The packages that a cluster installs from a package index, in the tested versions of the locks."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache

from tools.bundle.sources import ROOT

_LOCKS = ("requirements.lock", "requirements-notebooks.lock")
_PINNED = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?P<marker> ;[^\\]*)?")
_REQUIRED_BY = re.compile(r"^    #(?: via)? +(?P<name>[a-z0-9-]+)")
_NAME = re.compile(r"[a-z0-9-]+")


@dataclass(slots=True)
class Locked:
    """A package of a lock: its version, whether a cluster's Linux needs it, and which packages require it."""

    version: str
    is_for_linux: bool
    required_by: set[str]


@cache
def locked() -> dict[str, Locked]:
    """The packages of the locks by name; a package in both locks has the same version in both."""
    packages: dict[str, Locked] = {}
    for lock in _LOCKS:
        package = None
        for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
            if found := _PINNED.match(line):
                is_for_linux = "win32" not in (found["marker"] or "")
                package = packages.setdefault(found["name"], Locked(found["version"], is_for_linux, set()))
            elif package is not None and (requirer := _REQUIRED_BY.match(line)):
                package.required_by.add(requirer["name"])
    return packages


@cache
def needed_by_the_wheel(extras: frozenset[str] = frozenset()) -> frozenset[str]:
    """The packages that the wheel with some extras needs, directly or indirectly."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [
        *project["dependencies"],
        *(name for extra in extras for name in project["optional-dependencies"][extra]),
    ]
    needed: set[str] = set()
    added = {match[0] for requirement in requirements if (match := _NAME.match(requirement))}
    while added:
        needed |= added
        added = {name for name, package in locked().items() if package.is_for_linux and package.required_by & needed}
        added -= needed
    return frozenset(needed)
