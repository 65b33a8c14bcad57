"""The Spark session of the other whole-job tests."""

from tests.e2e.conftest import spark

__all__ = ["spark"]
