"""The table of the leases: each change is one transaction, and of two that conflict one is refused."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.tables.lease import TERM_MS
from sessionization.spark.tables.lease_table import Holder, StoredLease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import JOB_LEASE
from tests.lease.stand import DEADLINE_S, ELSEWHERE, T, found, give_to, memory_lease

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    """The table, which two runs have created at the same moment."""
    location = TableLocation(tmp_path_factory.mktemp("ware house"))
    with ThreadPoolExecutor(2) as pool:
        for creation in [pool.submit(StoredLease(spark, location, "any").create) for _ in range(2)]:
            creation.result()
    return location


def test_two_runs_that_create_the_table_at_the_same_moment_both_have_it(
    spark: SparkSession, location: TableLocation
) -> None:
    assert StoredLease(spark, location, "never taken").read() is None
    assert location.properties(spark, JOB_LEASE)["delta.isolationLevel"] == "Serializable"


@pytest.fixture(params=["in the table", "in memory"])
def either(request: pytest.FixtureRequest) -> StoredLease:
    if request.param == "in memory":
        return memory_lease("a run's")
    return StoredLease(request.getfixturevalue("spark"), request.getfixturevalue("location"), "a run's")


def test_only_a_free_lease_is_taken_and_only_its_holder_changes_it(either: StoredLease) -> None:
    """Another run may have taken it since this one looked, so each change has the condition under which it is made."""
    end = ELSEWHERE.until_ms
    ours = replace(ELSEWHERE, owner="our's", pid_scope=None, engine_pid=None, since_ms=T + 1, until_ms=end + 5)
    assert not either.renew(ELSEWHERE, end), "nobody has it"
    assert either.take(ELSEWHERE, 0, None), "nobody ever took it"
    assert either.read() == ELSEWHERE
    assert not either.take(ours, end, None), "it ends at this instant"
    assert not either.take(ours, end, "a former owner")
    assert not either.renew(ours, end + 9)
    assert not either.give_up(ours, T)
    assert either.read() == ELSEWHERE
    assert either.take(ours, end + 1, None), "it has ended"
    assert either.read() == ours
    assert either.take(ELSEWHERE, 0, ours.owner), "its owner is dead"
    assert either.renew(ELSEWHERE, end + 7)
    assert either.read() == replace(ELSEWHERE, until_ms=end + 7)
    assert not either.is_of(ours)
    assert either.give_up(ELSEWHERE, T)
    assert either.read() == replace(ELSEWHERE, owner=None, until_ms=T)
    assert either.take(ours, 0, None), "it was given up"
    assert either.is_of(ours)


def test_a_run_names_the_process_of_its_engine(spark: SparkSession) -> None:
    engine_pid = Holder.this_run(spark, "sessionize").engine_pid
    assert Path(f"/proc/{engine_pid}/cmdline").read_bytes().startswith(b"/")
    assert engine_pid != os.getpid()


def test_of_two_runs_that_take_it_at_the_same_moment_exactly_one_has_it(
    spark: SparkSession, location: TableLocation
) -> None:
    """First a lease that nobody ever took, and then the same lease, which has ended."""
    start, table = threading.Barrier(2), StoredLease(spark, location, "of two")

    def take(run: Holder) -> bool:
        start.wait(DEADLINE_S)
        return table.take(run, run.since_ms, None)

    with ThreadPoolExecutor(2) as pool:
        for since_ms in (T, T + 2 * TERM_MS):
            end_ms = since_ms + TERM_MS
            runs = [replace(ELSEWHERE, owner=name, since_ms=since_ms, until_ms=end_ms) for name in ("first", "second")]
            taken = list(pool.map(take, runs))
            assert sum(taken) == 1, since_ms
            rows = location.read(spark.read, JOB_LEASE).where("name = 'of two'").select("owner").collect()
            assert [row.owner for row in rows] == ["first" if taken[0] else "second"]


def test_a_commit_that_another_one_has_replaced_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    """As on storage that does not refuse a second commit of the same number. The table is this test's alone."""
    table, ours = StoredLease(spark, TableLocation(tmp_path), "replaced"), replace(ELSEWHERE, owner="ours")
    table.create()
    give_to(table, ours)
    _replace_newest_commit(table)
    assert not table.is_of(ours)
    assert found(table) == ELSEWHERE


def _replace_newest_commit(table: StoredLease) -> None:
    """Put the commit of another run, made from the same version, in the place of this run's."""
    assert table.location.warehouse is not None
    log = table.location.warehouse / JOB_LEASE.name / "_delta_log"
    ours = max(log.glob("*.json"))
    give_to(table, ELSEWHERE)
    theirs = max(log.glob("*.json"))
    lines = [line for line in theirs.read_text(encoding="utf-8").splitlines() if not line.startswith('{"remove"')]
    theirs.unlink()
    ours.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for stale in (*log.glob(f".{ours.name}.crc"), *log.glob(f".{theirs.name}.crc"), *log.glob("*.crc")):
        stale.unlink(missing_ok=True)
