"""The hash of devices is the same in Python and in Spark, and a key spreads it."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.checkpoint.state_layout import StateLayout

pytestmark = pytest.mark.spark

DEVICES = ["pc-1", "", "Jos\u00e9", "\U0001f3ae", "a" * 256, *(f"d{number}" for number in range(200))]


def test_spark_and_python_compute_the_same_grouping_key(spark: SparkSession) -> None:
    counts, keys = (1, 32, 1_000_000), ("", "0123456789abcdef")
    layouts = [StateLayout(), *(StateLayout(count, key) for count in counts for key in keys)]
    rows = spark.createDataFrame([(device_id,) for device_id in DEVICES], "device_id string")
    for device_id, *found in rows.select("device_id", *(layout.grouping_key() for layout in layouts)).collect():
        assert found == [layout.grouping_key_of(device_id) for layout in layouts]


def test_ids_of_one_bucket_are_spread_over_all_buckets_by_another_key() -> None:
    """Ids that fill one bucket are found within seconds for a hash without a key."""
    ids = [f"d{number}" for number in range(40_000)]
    one_bucket = [device_id for device_id in ids if StateLayout(1).bucket_of(device_id, 64) == 7]
    keyed = Counter(StateLayout(1, "secret").bucket_of(device_id, 64) for device_id in one_bucket)
    assert len(one_bucket) > 500
    assert len(keyed) == 64
    assert max(keyed.values()) < 5 * len(one_bucket) / 64
