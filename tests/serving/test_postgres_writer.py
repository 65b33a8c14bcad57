"""What breaks a connection only makes the writer wait, and nothing is written twice or lost."""

import threading
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sessionization.errors import ConfigurationError, StoppedError, StreamError
from sessionization.serving.postgres_login import Login, login
from sessionization.serving.postgres_writer import PostgresWriter
from sessionization.serving.served_tables import ServedTables
from sessionization_laptop.postgres import Postgres
from tests.support.waiting import wait_for

pytestmark = pytest.mark.job

ROW = "{device},1,2026-11-01 10:00:00Z,2026-11-01 10:00:01Z,,\n"


def row(device: str) -> BytesIO:
    return BytesIO(ROW.format(device=device).encode())


class Stand:
    """A writer, the lines that it says, and a connection beside it."""

    def __init__(self, connect: Login, schema: str) -> None:
        self.schema, self.connect = schema, connect
        self.lines: list[str] = []
        self.stop = threading.Event()
        tables = ServedTables(schema, (), "bigint", "UTC")
        self.writer = PostgresWriter(connect, tables, self.lines.append, self.stop)

    def write(self, device: str, position: str) -> None:
        self.writer.write(row(device), position, 1)

    def query(self, sql: str) -> list[tuple]:
        with self.connect() as connection:
            found = connection.execute(sql)
            return found.fetchall() if found.description else []

    def devices(self) -> list[str]:
        return [device for (device,) in self.query(f"SELECT device_id FROM {self.schema}.served_sessions ORDER BY 1")]


@pytest.fixture
def make_stand(postgres: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stand]]:
    monkeypatch.setenv("SERVING_PASSWORD", postgres.password)
    stands: list[Stand] = []

    def make(password: str = "env:SERVING_PASSWORD") -> Stand:
        stands.append(Stand(login(postgres.conninfo, password, None), schema))
        return stands[-1]

    yield make
    for stand in stands:
        stand.stop.set()
        stand.writer.close()


@pytest.fixture
def stand(make_stand: Callable[..., Stand]) -> Stand:
    stand = make_stand()
    stand.writer.open()
    stand.writer.begin(BytesIO(), 0, "0")
    return stand


def in_background(call: Callable[[], Any]) -> tuple[threading.Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def test_an_outage_makes_it_wait_and_go_on(stand: Stand, postgres: Postgres) -> None:
    stand.write("a", "1")
    postgres.kill()
    thread, raised = in_background(lambda: stand.write("b", "2"))
    wait_for(lambda: stand.writer.is_waiting)
    assert thread.is_alive()
    postgres.start()
    thread.join(60)
    assert (raised, stand.devices(), stand.writer.is_waiting) == ([], ["a", "b"], False)
    assert "waits, and tries again" in stand.lines[0]
    assert "takes changes again" in stand.lines[-1]


def test_a_start_waits_for_postgres_to_start(make_stand: Callable[..., Stand], postgres: Postgres) -> None:
    postgres.kill()
    stand = make_stand()
    thread, raised = in_background(stand.writer.open)
    wait_for(lambda: stand.writer.is_waiting)
    postgres.start()
    thread.join(60)
    assert (thread.is_alive(), raised) == (False, [])


def test_a_connection_that_is_cut_is_made_anew(stand: Stand) -> None:
    stand.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'serve_sessions' "
        "AND pid <> pg_backend_pid()"
    )
    stand.write("a", "1")
    assert stand.devices() == ["a"]


def test_a_commit_that_was_not_acknowledged_is_not_repeated(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = ServedTables.write, []

    def write(*arguments: Any) -> None:
        calls.append(arguments)
        original(*arguments)
        msg = "the connection broke after the commit"
        raise psycopg.OperationalError(msg)

    monkeypatch.setattr(ServedTables, "write", write)
    stand.write("a", "1")
    assert (len(calls), stand.devices()) == (1, ["a"])


def test_a_lock_of_somebody_else_makes_it_wait(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionization.serving.postgres_writer._LOCK_TIMEOUT", "100ms")
    stand.writer.close()
    with stand.connect() as other, other.transaction():
        other.execute(f"LOCK TABLE {stand.schema}.served_sessions IN SHARE MODE")
        thread, raised = in_background(lambda: stand.write("a", "1"))
        wait_for(lambda: any("lock timeout" in line for line in stand.lines))
    thread.join(60)
    assert (raised, stand.devices()) == ([], ["a"])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE {schema}.serving_progress SET position = 'older'",
        "DELETE FROM {schema}.serving_progress",
        "DROP SCHEMA {schema} CASCADE",
        "ALTER TABLE {schema}.served_sessions DROP COLUMN first_start CASCADE",
    ],
)
def test_another_position_ends_the_run_and_a_comparison_begins_the_next(stand: Stand, change: str) -> None:
    stand.write("a", "1")
    stand.query(change.format(schema=stand.schema))
    assert stand.writer.correct(row("b"), 2**41) == 0
    assert stand.writer.has_lost_position
    with pytest.raises(StreamError):
        stand.write("b", "2")
    assert "b" not in stand.devices()
    stand.writer.begin(row("c"), 2**41, "3")
    stand.write("d", "4")
    assert (stand.devices(), stand.writer.has_lost_position) == (["c", "d"], False)


def test_a_second_run_waits_until_the_first_one_ends(stand: Stand, make_stand: Callable[..., Stand]) -> None:
    second = make_stand()
    thread, raised = in_background(second.writer.open)
    wait_for(lambda: bool(second.lines))
    assert "another run serves" in second.lines[0]
    stand.writer.close()
    thread.join(60)
    assert (thread.is_alive(), raised) == (False, [])


def test_a_stop_ends_a_wait(stand: Stand, postgres: Postgres) -> None:
    postgres.kill()
    thread, raised = in_background(lambda: stand.write("a", "1"))
    wait_for(lambda: stand.writer.is_waiting)
    stand.stop.set()
    thread.join(60)
    postgres.start()
    assert [type(error) for error in raised] == [StoppedError]


@pytest.mark.parametrize(
    ("conninfo", "password", "said"),
    [
        ("nonsense", None, "cannot be read"),
        ("host=localhost password=secret", None, "others can read a command line"),
        ("host=localhost", "secret", "is no reference"),
        ("host=localhost", "env:NOT_THERE", "NOT_THERE is not set"),
        ("host=localhost", "secret:a/b", "Databricks only"),
        ("host=localhost", "call:nowhere:token", "cannot be imported"),
        ("host=localhost", "call:os", "names no function"),
        ("postgresql://me:p%secret@db.example/games", None, "cannot be read"),
    ],
)
def test_a_wrong_login_is_named_in_one_line(conninfo: str, password: str | None, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as raised:
        login(conninfo, password, None)
    assert not any(secret in str(raised.value) for secret in ("=secret", "%secret"))
    assert "\n" not in str(raised.value)


def test_a_function_gives_a_token_for_each_connection(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokens_of_the_studio.py").write_text(
        f"calls = []\ndef token(parameters):\n    calls.append(parameters['host'])\n    return {postgres.password!r}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    connect = login(postgres.conninfo, "call:tokens_of_the_studio:token", None)
    connect().close()
    connect().close()
    import tokens_of_the_studio  # type: ignore[import-not-found]

    assert tokens_of_the_studio.calls == ["127.0.0.1", "127.0.0.1"]


def test_a_function_that_fails_makes_it_wait(
    make_stand: Callable[..., Stand], postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([postgres.password, KeyError("no endpoint"), postgres.password, postgres.password])

    def token(_parameters: Mapping[str, Any]) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("sessionization.serving.lakebase.token", token)
    stand = make_stand("call:sessionization.serving.lakebase:token")
    stand.writer.open()
    stand.writer.begin(BytesIO(), 0, "0")
    stand.writer.close()
    stand.write("a", "1")
    assert "lakebase:token gave none: 'no endpoint'" in stand.lines[0]
    assert "takes changes again" in stand.lines[-1]


def test_a_wrong_password_ends_the_start(postgres: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVING_PASSWORD", "wrong")
    stand = Stand(login(postgres.conninfo, "env:SERVING_PASSWORD", None), schema)
    with pytest.raises(ConfigurationError, match="password authentication failed"):
        stand.writer.open()


@pytest.mark.parametrize(
    ("conninfo", "mode"),
    [
        ("host=db.example", "verify-full"),
        ("host=db.example sslmode=require", "require"),
        ("postgresql://user@db.example/games", "verify-full"),
        ("host=127.0.0.1", None),
        ("host=localhost,db.example", "verify-full"),
        ("dbname=games", "verify-full"),  # the host is PGHOST's, or a service file's
        ("host=/run/postgresql", None),
    ],
)
def test_off_this_machine_the_certificate_is_checked(
    conninfo: str, mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(psycopg, "connect", lambda _text, **parameters: given.append(parameters))
    login(conninfo, None, None)()
    assert given[0].get("sslmode") == mode
