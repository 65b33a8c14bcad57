"""What the parts of a running job share."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import Checkpoint
from sessionization.spark.tables.lease_table import no_lease
from sessionization.spark.tables.location import TableLocation


@dataclass(frozen=True, slots=True)
class JobContext:
    """One start of the sessionize job: its engine, its settings, its checkpoint, its tables, and whom to print to."""

    spark: SparkSession
    settings: SessionizeSettings
    checkpoint: Checkpoint
    location: TableLocation
    say: Say = lambda _line: None
    log_place: str = "the driver's log"
    """Where the engine logs, for messages."""
    check_lease: Callable[[], None] = no_lease
    """Raises `StreamError` where a lease excludes other drivers, and this run does not hold it any more."""

    @property
    def is_real_time(self) -> bool:
        return self.settings.pace.mode == "real-time"

    @property
    def state_partitions(self) -> int:
        """How many partitions the state has, or will have from the first micro-batch on."""
        return self.checkpoint.state_partitions() or int(str(self.spark.conf.get("spark.sql.shuffle.partitions")))
