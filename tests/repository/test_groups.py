"""Tests that share costly fixtures run in one process of pytest-xdist, so that each fixture is made once."""

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process runs all tests")
def test_pytest_xdist_knows_the_group_of_a_test(request: pytest.FixtureRequest) -> None:
    assert request.node.nodeid.endswith(f"@{request.node.path}")
