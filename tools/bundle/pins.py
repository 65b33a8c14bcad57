"""The packages that a cluster installs from a package index: those that Databricks Runtime 19 lacks."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache

from packaging.requirements import Requirement

from tools.bundle.target import ROOT

RUNTIME = ROOT / "tools/bundle/runtime_packages.txt"
LOCK = ROOT / "requirements-databricks.lock"
"""The runtime's packages as far as the project needs them, and what a cluster installs beside them."""
_NOTEBOOKS_LOCK = ROOT / "requirements-notebooks.lock"
_PINNED = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ;\n]+)")
_REQUIRED_BY = re.compile(r"    #(?: via)? +(?P<name>[a-z0-9-]+)")


@dataclass(slots=True)
class Locked:
    """A package of a lock: its version, and which packages require it."""

    version: str
    required_by: set[str]


@cache
def runtime_versions() -> dict[str, str]:
    """The version of every package of the runtime, by name."""
    return dict(_PINNED.findall(RUNTIME.read_text(encoding="utf-8")))


@cache
def locked() -> dict[str, Locked]:
    """The packages of the runtime's lock by name."""
    packages: dict[str, Locked] = {}
    package = None
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        if found := _PINNED.match(line):
            package = packages[found["name"]] = Locked(found["version"], set())
        elif package is not None and (requirer := _REQUIRED_BY.match(line)):
            package.required_by.add(requirer["name"])
    return packages


@cache
def installed_with_the_wheel(extras: frozenset[str] = frozenset()) -> dict[str, str]:
    """By name the version of each package that the wheel with some extras needs and the runtime lacks.

    Raises `ValueError` where the runtime has a package in a version that the wheel does not take.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    requirements = [Requirement(text) for text in texts]
    refuse_unfit(requirements, runtime_versions())
    needed: set[str] = set()
    added = {requirement.name for requirement in requirements}
    while added:
        needed |= added
        added = {name for name, package in locked().items() if package.required_by & needed} - needed
    return {name: locked()[name].version for name in sorted(needed - runtime_versions().keys())}


def refuse_unfit(requirements: list[Requirement], versions: dict[str, str]) -> None:
    """Raises `ValueError` where one of these versions does not fit."""
    for requirement in requirements:
        version = versions.get(requirement.name)
        if version is not None and version not in requirement.specifier:
            msg = (
                f"the wheel needs {requirement}, and the runtime has {version}, which every node would replace at its "
                "start: allow that version in pyproject.toml"
            )
            raise ValueError(msg)


def pinned_for_tests(package: str) -> str:
    """The version of a package that only the notebooks' tests need."""
    versions = dict(_PINNED.findall(_NOTEBOOKS_LOCK.read_text(encoding="utf-8")))
    return str(versions[package])
