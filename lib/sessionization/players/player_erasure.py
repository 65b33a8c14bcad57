"""What an erasure does to the tables of players and days: their rows go at once, and counts with the job's next run."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.players.due_days import note
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    FINDING_LIMITS,
    PLAYER_DAYS,
    PLAYER_FIRST_DAYS,
    PLAYER_PROGRESS,
    SESSION_FINDINGS,
    Table,
)

TABLES_WITH_PLAYERS = (PLAYER_DAYS, PLAYER_FIRST_DAYS, SESSION_FINDINGS, FINDING_LIMITS)


def tables_to_erase(
    spark: SparkSession, location: TableLocation, accounts: Sequence[str], account_sessions: DataFrame
) -> list[Table]:
    """The tables that name players and exist; notes the days of these accounts first.

    The next run counts those days without them, also days of `account_sessions` that no row of the account has.
    """
    tables = location.present(spark, TABLES_WITH_PLAYERS)
    if location.missing(spark, (PLAYER_PROGRESS, PLAYER_DAYS)):  # then the next run computes all days
        return tables
    days = location.read(spark.read, PLAYER_DAYS)
    of_accounts = days.where((F.col("player_kind") == "account") & F.col("player").isin(*accounts)).select("day")
    hashes = account_sessions.select(F.xxhash64("device_id", "session_id").alias("session_hash"))
    of_sessions = days.select("day", F.explode("_sessions").alias("session_hash")).join(
        F.broadcast(hashes), "session_hash", "left_semi"
    )
    found = of_accounts.union(of_sessions.select("day")).distinct().collect()
    if found:
        note(spark, location, "erased", [row.day for row in found])
    return tables
