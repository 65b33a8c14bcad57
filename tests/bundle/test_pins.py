"""A cluster installs what the runtime lacks, and nothing that the runtime has."""

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tools.bundle.pins import installed_with_the_wheel, locked, pinned_for_tests, refuse_unfit, runtime_versions
from tools.bundle.target import read_target

JOBS = read_target("dev")["resources"]["jobs"]
EXTRAS = frozenset({"avro", "forecast", "metrics", "kafka", "serving"})


def test_the_wheel_needs_one_package_that_the_runtime_lacks() -> None:
    assert installed_with_the_wheel().keys() == {"orjson"}


def test_the_lock_has_the_runtimes_versions_and_what_is_installed() -> None:
    versions = runtime_versions() | installed_with_the_wheel(EXTRAS)
    for name, package in locked().items():
        assert Version(package.version) == Version(versions[name]), name


@pytest.mark.parametrize("key", sorted(JOBS))
def test_a_job_installs_the_wheel_and_what_of_it_the_runtime_lacks(key: str) -> None:
    """The extras are those that its code imports, and the versions those of the locks."""
    extras = {
        "sessionize": {"avro", "metrics"}, "preflight": {"avro", "metrics"}, "backfill": {"avro"},
        "erase_account": {"avro"}, "simulate": {"kafka"}, "predict_remaining": {"forecast"},
            "serve_sessions": {"metrics", "serving"},
    }  # fmt: skip
    expected = installed_with_the_wheel(frozenset(extras.get(key, ())))
    if key == "workspace_tests":
        expected |= {"nutter": pinned_for_tests("nutter")}
    for task in JOBS[key]["tasks"]:
        packages = [library["pypi"]["package"] for library in task["libraries"] if "pypi" in library]
        assert packages == [f"{name}=={version}" for name, version in sorted(expected.items())]
    assert expected.keys() & runtime_versions().keys() == set()


def test_a_requirement_above_the_runtimes_version_is_refused() -> None:
    requirements = [Requirement("click>=8.1"), Requirement("tenacity>=9.2")]
    with pytest.raises(ValueError, match=r"tenacity>=9.2, and the runtime has 9.1.2, .*: allow that version"):
        refuse_unfit(requirements, {"click": "8.2.1", "tenacity": "9.1.2"})
