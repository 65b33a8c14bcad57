"""The Postgres server of the tests and of the demo of serving."""

import os
from pathlib import Path

import psycopg
import pytest

from sessionization.errors import SetupError
from sessionization_laptop import postgres
from sessionization_laptop.postgres import Postgres


def connect(server: Postgres) -> psycopg.Connection:
    return psycopg.connect(server.conninfo, password=server.password, autocommit=True)


@pytest.mark.job
def test_rows_survive_a_kill_and_no_query_does_and_a_second_server_continues(tmp_path: Path) -> None:
    with Postgres(tmp_path / "a folder") as server:
        connection = connect(server)
        connection.execute("CREATE TABLE games (title text)")
        connection.execute("INSERT INTO games VALUES ('Žíť')")
        written_as = connection.execute("SELECT pg_encoding_to_char(encoding), datcollate FROM pg_database")
        assert set(written_as) == {("UTF8", "C")}
        pid = connection.info.backend_pid
        connection.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 1000000000000)")
        server.kill()
        connection.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert server.pid is None
        server.start()
        server.start()
    with Postgres(tmp_path / "a folder", {"max_connections": "7"}) as second, connect(second) as connection:
        assert connection.execute("SELECT title FROM games").fetchall() == [("Žíť",)]
        assert connection.execute("SHOW max_connections").fetchone() == ("7",)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(second.conninfo, password="another")


@pytest.mark.job
def test_the_error_of_a_server_that_cannot_start_names_its_log_file(tmp_path: Path) -> None:
    server = Postgres(tmp_path, {"max_connections": "none"})
    with pytest.raises(SetupError, match=r"Postgres server ended with code 1 while starting: .*postgres\.log"):
        server.start()
    assert "max_connections" in server.log_file.read_text()
    assert server.pid is None


def test_without_the_package_an_error_says_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_PACKAGE", "pixeltable_other")
    with pytest.raises(SetupError, match=r"there is no Postgres here: run `make \.venv/\.postgres`"):
        Postgres(tmp_path).start()
