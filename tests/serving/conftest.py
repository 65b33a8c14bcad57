"""A Postgres server for the tests of this folder, and a schema of its own for each test."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg
import pytest

from sessionization_laptop.postgres import Postgres

_NUMBERS = count()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres"), {"fsync": "off"}) as server:
        yield server


@pytest.fixture
def schema() -> str:
    return f"serving_{next(_NUMBERS)}"


@pytest.fixture
def connection(postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.conninfo, password=postgres.password, autocommit=True) as connection:
        yield connection
