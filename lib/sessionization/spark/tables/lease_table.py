"""The table of the leases: who holds one, and the transactions that take, renew and give it up."""

import contextlib
import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from sessionization.clock import utc
from sessionization.private_spark import jvm_of
from sessionization.processes import is_alive, pid_scope
from sessionization.spark.tables.conflicts import is_conflict
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import JOB_LEASE
from sessionization.sql_text import quoted_text

_NO_CHECKPOINT = "no checkpoint"


def no_lease() -> None:
    """Check nothing. A run that holds a lock uses this in place of `Lease.check`, because it needs no lease."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that a lease names."""

    owner: str | None
    job: str
    host: str
    pid: int
    pid_scope: str | None
    engine_pid: int | None
    since_ms: int
    until_ms: int

    @classmethod
    def this_run(cls, spark: SparkSession, job: str) -> Self:
        """This process and its engine, with a new id, for a lease that it does not have yet."""
        engine_pid = _engine_pid(spark)
        return cls(str(uuid.uuid4()), job, socket.gethostname(), os.getpid(), pid_scope(), engine_pid, 0, 0)

    def __str__(self) -> str:
        since, until = (utc(instant_ms).isoformat(timespec="seconds") for instant_ms in (self.since_ms, self.until_ms))
        return f"{self.job} (process {self.pid} on {self.host}) since {since} until {until}"

    @property
    def has_died(self) -> bool:
        """Whether both the process and its engine, which may outlive it, certainly run no longer; false if unknown."""
        if self.pid_scope is None or (self.host, self.pid_scope) != (socket.gethostname(), pid_scope()):
            return False
        return self.engine_pid is not None and not is_alive(self.pid) and not is_alive(self.engine_pid)

    def is_free(self, ended_before_ms: int) -> bool:
        return self.owner is None or self.until_ms < ended_before_ms


@dataclass(frozen=True, slots=True)
class StoredLease:
    """One lease in the table. Each change is one transaction, and contains the condition under which it is allowed.

    The isolation level of the table makes any two of them conflict that change the same lease.
    """

    spark: SparkSession
    location: TableLocation
    name: str

    def __str__(self) -> str:
        return f"the lease {self.name!r} of {self.location}"

    @retry(
        retry=retry_if_exception_type(PySparkException), stop=stop_after_attempt(3), wait=wait_fixed(1), reraise=True
    )
    def create(self) -> None:
        """Create the table, unless it exists.

        Nobody drops it, not even a start that is refused after this: another run may have just found it there.

        Tries again, because another run may be creating it: its folder is then not empty, and has no table yet.
        """
        if not self.location.exists(self.spark, JOB_LEASE):
            create_table(self.spark, self.location, JOB_LEASE, _NO_CHECKPOINT)

    def read(self) -> Holder | None:
        """The run that holds or held the lease; None where nobody ever took it."""
        rows = self.spark.sql(
            "SELECT owner, job, host, pid, pid_scope, engine_pid, unix_millis(since) AS since_ms, "
            f"unix_millis(until) AS until_ms FROM {self._table} WHERE {self._is_this}"
        ).collect()
        return max((Holder(**row.asDict()) for row in rows), key=lambda holder: holder.until_ms, default=None)

    def take(self, run: Holder, ended_before_ms: int, dead_owner: str | None) -> bool:
        """Take the lease for `run` if it is free.

        It is free if nobody has taken it yet, if its holder has given it up, if it ended before `ended_before_ms`, or
        if its holder is `dead_owner`.

        Returns:
            Whether this run has the lease now.
        """
        values = {
            "name": quoted_text(self.name),
            "owner": quoted_text(run.owner or ""),
            "job": quoted_text(run.job),
            "host": quoted_text(run.host),
            "pid": str(run.pid),
            "pid_scope": "CAST(NULL AS string)" if run.pid_scope is None else quoted_text(run.pid_scope),
            "engine_pid": f"CAST({'NULL' if run.engine_pid is None else run.engine_pid} AS bigint)",
            "since": f"timestamp_millis({run.since_ms})",
            "until": f"timestamp_millis({run.until_ms})",
        }
        is_free = f"held.owner IS NULL OR held.until < timestamp_millis({ended_before_ms})"
        if dead_owner is not None:
            is_free += f" OR held.owner = {quoted_text(dead_owner)}"
        row = ", ".join(f"{value} AS {name}" for name, value in values.items())
        merge = (
            f"MERGE INTO {self._table} AS held USING (SELECT {row}) AS run ON held.{self._is_this} "
            f"WHEN MATCHED AND ({is_free}) THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        try:
            self.spark.sql(merge).collect()
        except PySparkException as error:
            if not is_conflict(error):
                raise
        return self.is_of(run)

    def is_of(self, run: Holder) -> bool:
        holder = self.read()
        return holder is not None and holder.owner == run.owner

    def renew(self, run: Holder, until_ms: int) -> bool:
        """Returns whether this run still had the lease."""
        return self._update(run, f"until = timestamp_millis({until_ms})")

    def give_up(self, run: Holder, now_ms: int) -> bool:
        """Returns whether this run still had the lease."""
        return self._update(run, f"owner = NULL, until = timestamp_millis({now_ms})")

    def _update(self, run: Holder, assignments: str) -> bool:
        is_ours = f"{self._is_this} AND owner = {quoted_text(run.owner or '')}"
        result = self.spark.sql(f"UPDATE {self._table} SET {assignments} WHERE {is_ours}").collect()
        return bool(result[0].num_affected_rows > 0)

    @property
    def _table(self) -> str:
        return self.location.sql_name(JOB_LEASE.name)

    @property
    def _is_this(self) -> str:
        return f"name = {quoted_text(self.name)}"


def _engine_pid(spark: SparkSession) -> int | None:
    """The process of the engine, where it is certain that this process sees it under this id."""
    jvm = jvm_of(spark)
    if jvm is None:
        return None
    with contextlib.suppress(Py4JError, OSError):
        pid = int(jvm.java.lang.ProcessHandle.current().pid())
        if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "java":
            return pid
    return None
