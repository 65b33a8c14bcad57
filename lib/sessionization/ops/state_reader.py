"""Read the operator's state through Spark's state data source, also while the stream runs; nothing is changed."""

import atexit
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import AnyPath
from sessionization.spark.checkpoint.folder import SESSIONIZE, read_checkpoint
from sessionization.spark.checkpoint.spark_logs import StartedBatch, newest_committed_batch, read_started_batch
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.operator.session_store import LABELS, STATE_NAME
from sessionization.spark.operator.stored_entries import STATE_SCHEMA

_READABLE_PATH = re.compile(r"[\w/.:=@+-]+")
_DEVICES_SCHEMA = "map<string, array<array<string>>>"


@dataclass(frozen=True, slots=True)
class StateReader:
    """The state of one checkpoint after a micro-batch; by default the last one committed when a frame is read.

    `checkpoints` is the `--checkpoints` folder of the job, `batch_id` a committed micro-batch.
    """

    spark: SparkSession
    checkpoints: AnyPath
    batch_id: int | None = None

    def at_newest(self) -> "StateReader":
        """A reader that is fixed to the micro-batch that is the last committed one now.

        Raises `ConfigurationError` where none is committed yet, and `CheckpointError` where Spark's log cannot be read.
        """
        batch_id = newest_committed_batch(self.checkpoints / SESSIONIZE)
        if batch_id < 0:
            raise _no_state(self.checkpoints)
        return replace(self, batch_id=batch_id)

    def started_batch(self) -> StartedBatch:
        """The micro-batch of `at_newest`, as Spark logged it."""
        assert self.batch_id is not None
        return read_started_batch(self.checkpoints / SESSIONIZE, self.batch_id)

    def entries(self) -> DataFrame:
        """One row per entry as it is stored, with or without device groups.

        Returns:
            `grouping_key`, `partition`, `device_id`, `session_id`, the fields of `stored_entries.STATE_SCHEMA`, and
            `labels` where the job has label columns: their values as a JSON array, null without any.

        Raises `ConfigurationError` for a folder without state.
        """
        stored = self._read(stateVarName=STATE_NAME)
        if "bucket" in stored.schema["user_map_key"].dataType.names:  # type: ignore[attr-defined]
            return _entries_of_groups(stored, read_checkpoint(self.checkpoints).layout)
        return stored.select(
            "key.grouping_key",
            F.col("partition_id").alias("partition"),
            F.col("key.grouping_key").alias("device_id"),
            F.col("user_map_key.session_id").alias("session_id"),
            "user_map_value.*",
        )

    def sessions(self) -> DataFrame:
        """One row per entry, with or without device groups.

        Returns:
            `device_id`, `session_id`, `status` (`live`, `closed`, `pending_end`), `platform`, `account_id`,
            `started_at`, `opened_at`, `ended_at`, `end_reason`, `revision`, `foreground_s`, `since_at` (closed or
            first received), `grouping_key`, `partition`, and `labels` as in `entries`. With signs of life, a live
            session has its last activity in `ended_at`, and in `since_at` when that was heard; where a start is
            implied, `status` is `implied_live` or `implied_closed`.

        Raises `ConfigurationError` for a folder without state.
        """
        entries = self.entries()
        return entries.select(
            "device_id", "session_id", "status", "platform", "account_id",
            *(_timestamp(name) for name in ("started", "opened", "ended")),
            "end_reason", "revision", "foreground_s", _timestamp("since"), "grouping_key", "partition",
            *(name for name in entries.columns if name == LABELS.name),
        )  # fmt: skip

    def timers(self) -> DataFrame:
        """One row per timer: `grouping_key`, `due_at`, `partition`.

        Raises `ConfigurationError` for a folder without state.
        """
        stored = self._read(readRegisteredTimers="true")
        return stored.select(
            "key.grouping_key",
            F.timestamp_millis("expiration_timestamp_ms").alias("due_at"),
            F.col("partition_id").alias("partition"),
        )

    def of_device(self, device_id: str | None) -> DataFrame:
        """The entries of one device, as `sessions` returns them, in the order of their Starts; no rows for None."""
        return self.sessions().where(F.col("device_id") == F.lit(device_id)).orderBy("started_at", "session_id")

    def by_partition(self) -> DataFrame:
        """One row per partition that holds entries or timers.

        Returns:
            `partition`, `devices`, `live`, `closed`, `pending_ends`, `timers`.
        """
        entries = (
            self.sessions()
            .groupBy("partition")
            .agg(
                F.countDistinct("device_id").alias("devices"),
                *(
                    F.count_if(F.col("status").endswith(status)).alias(name)
                    for status, name in (("live", "live"), ("closed", "closed"), ("pending_end", "pending_ends"))
                ),
            )
        )
        timers = self.timers().groupBy("partition").agg(F.count("*").alias("timers"))
        return entries.join(timers, "partition", "full").fillna(0).orderBy("partition")

    def largest_devices(self, limit: int = 20) -> DataFrame:
        """The devices with the most entries; of devices with equally many, those with a live session come first.

        Returns:
            `device_id`, `entries`, `live`, `oldest_at`, `partition`.
        """
        return (
            self.sessions()
            .groupBy("device_id", "partition")
            .agg(
                F.count("*").alias("entries"),
                F.count_if(F.col("status").endswith("live")).alias("live"),
                F.min(F.coalesce("opened_at", "since_at")).alias("oldest_at"),
            )
            .orderBy(F.desc("entries"), F.desc("live"), "device_id")
            .limit(limit)
        )

    def fullest_device(self) -> str | None:
        """The device with the most entries; None where the state is empty."""
        row = self.largest_devices(1).first()
        return None if row is None else str(row.device_id)

    def _read(self, **options: str) -> DataFrame:
        if not (self.checkpoints / SESSIONIZE / "state").is_dir():
            raise _no_state(self.checkpoints)
        # The state reader needs a part of the engine that starts with streaming; this call starts it.
        _ = self.spark.streams.active
        path = readable_path(str(self.checkpoints.absolute() / SESSIONIZE))
        if self.batch_id is not None:
            options |= {"batchId": str(self.batch_id)}
        try:
            return self.spark.read.format("statestore").options(path=path, **options).load()
        except PySparkException as error:
            msg = (
                f"the state in --checkpoints {self.checkpoints} cannot be read ({root_cause(str(error))}): "
                "try again after the next micro-batch"
            )
            raise ConfigurationError(msg) from error


def _entries_of_groups(stored: DataFrame, layout: StateLayout) -> DataFrame:
    by_bucket = stored.select(
        "key.grouping_key",
        F.col("partition_id").alias("partition"),
        "user_map_key.bucket",
        F.explode(F.from_json("user_map_value.devices", _DEVICES_SCHEMA)).alias("device_id", "stored"),
    )
    # The bucket of recently changed devices (RECENT) has the lowest number and holds their current value: null if
    # the device was removed from the state.
    devices = by_bucket.groupBy("grouping_key", "partition", "device_id").agg(
        F.min_by("stored", "bucket").alias("stored")
    )
    entries = devices.select("grouping_key", "partition", "device_id", F.explode("stored").alias("entry"))
    if layout.labels:  # those of an entry are the last element, and else that is a number
        last = F.element_at("entry", -1)
        without_last = F.slice("entry", F.lit(1), F.size("entry") - 1)
        entries = entries.withColumn(LABELS.name, F.when(last.startswith("["), last)).withColumn(
            "entry", F.when(F.col(LABELS.name).isNotNull(), without_last).otherwise(F.col("entry"))
        )
    return entries.select(
        "grouping_key",
        "partition",
        "device_id",
        F.col("entry")[0].cast(layout.session_id_type).alias("session_id"),
        # The last nulls are not stored.
        *(
            F.get("entry", F.lit(position)).cast(field.dataType).alias(field.name)
            for position, field in enumerate(STATE_SCHEMA.fields, 1)
        ),
        *([LABELS.name] if layout.labels else []),
    )


def _no_state(checkpoints: AnyPath) -> ConfigurationError:
    msg = (
        f"--checkpoints {checkpoints} holds no state: give the folder that the sessionize job was given, "
        "after its first micro-batch"
    )
    return ConfigurationError(msg)


@cache
def readable_path(folder: str) -> str:
    """A path to a folder that Spark's state reader can open.

    The reader encodes the path once too often, so it does not find a path with a space in it. Such a path gets a
    symbolic link without one, until this process ends. In a workspace other machines read too, so nothing is linked.
    """
    if _READABLE_PATH.fullmatch(folder) or on_databricks():
        return folder
    link = Path(tempfile.mkdtemp(prefix="sessionization-")) / "checkpoint"
    link.symlink_to(folder)
    atexit.register(shutil.rmtree, link.parent, ignore_errors=True)
    return str(link)


def _timestamp(name: str) -> Column:
    return F.timestamp_millis(f"{name}_ms").alias(f"{name}_at")
