"""A cluster installs what the runtime lacks, and nothing that the runtime has."""

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.bundle.prod import RESOURCES
from tools.bundle.pins import installed_with_the_wheel, locked, refuse_unfit, runtime_versions

EXTRAS = frozenset({"forecast", "metrics", "kafka"})


def test_the_wheel_needs_one_package_that_the_runtime_lacks() -> None:
    assert installed_with_the_wheel().keys() == {"orjson"}


def test_the_lock_has_the_runtimes_versions_and_what_is_installed() -> None:
    versions = runtime_versions() | installed_with_the_wheel(EXTRAS)
    for name, package in locked().items():
        assert Version(package.version) == Version(versions[name]), name


def test_no_job_replaces_a_package_of_the_runtime() -> None:
    installed = {
        library["pypi"]["package"].partition("==")[0]
        for job in RESOURCES["jobs"].values()
        for task in job["tasks"]
        for library in task.get("libraries", [])
        if "pypi" in library
    }
    assert "orjson" in installed
    assert installed & runtime_versions().keys() == set()


def test_a_requirement_above_the_runtimes_version_is_refused() -> None:
    requirements = [Requirement("click>=8.1"), Requirement("tenacity>=9.2")]
    with pytest.raises(ValueError, match=r"tenacity>=9.2, and the runtime has 9.1.2, .*: allow that version"):
        refuse_unfit(requirements, {"click": "8.2.1", "tenacity": "9.1.2"})
