"""What a cluster installs from a package index: in the versions of the locks, with which everything has been tested."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.bundle.sources import ROOT

_LOCKS = ("requirements.lock", "requirements-notebooks.lock")
_PINNED = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?P<marker> ;[^\\]*)?")
_ASKED_BY = re.compile(r"^    #(?: via)? +(?P<name>[a-z0-9-]+)")
_NAME = re.compile(r"[a-z0-9-]+")
_EXTRA_OF = {"--metrics-port=": "metrics"}
"""The extra that an option of a job needs."""


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


def extras_of(tasks: Iterable[dict[str, Any]]) -> frozenset[str]:
    """The extras that a job's options need, as the tasks that run a file hand them on."""
    words = [word for task in tasks for word in task.get("spark_python_task", {}).get("parameters", [])]
    return frozenset(extra for option, extra in _EXTRA_OF.items() if any(word.startswith(option) for word in words))


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


def pin_mistakes(task: dict[str, Any], extras: frozenset[str] = frozenset()) -> Iterator[str]:
    """The mistakes in the libraries of a job's task, for which the wheel needs some extras."""
    libraries = task.get("libraries", [])
    pinned: set[str] = set()
    for asked in (library["pypi"].get("package", "") for library in libraries if "pypi" in library):
        name, _, version = asked.partition("==")
        if name not in locked():
            yield f"{asked} is in none of {', '.join(_LOCKS)}"
        elif version != locked()[name].version:
            yield f"{asked} must be {name}=={locked()[name].version}, as the lock has it"
        pinned.add(name)
    if any("whl" in library for library in libraries):
        for name in sorted(needed_by_the_wheel(extras) - pinned):
            yield f"{name}=={locked()[name].version} is missing: the cluster would take whatever is newest then"
