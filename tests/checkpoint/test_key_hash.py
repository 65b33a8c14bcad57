"""The hash of devices and grouping keys is the same in Python and in Spark."""

import pytest
from pyspark.sql import SparkSession

from sessionization.core.key_hash import key_hash
from sessionization.spark.checkpoint.state_layout import StateLayout, key_hash_column

pytestmark = pytest.mark.spark

DEVICES = ["pc-1", "", "Jos\u00e9", "\U0001f3ae", "a" * 256, *(f"d{number}" for number in range(200))]


def test_spark_and_python_compute_the_same_hash_and_grouping_key(spark: SparkSession) -> None:
    layouts = StateLayout(), StateLayout(1), StateLayout(32), StateLayout(1_000_000)
    rows = spark.createDataFrame([(device_id,) for device_id in DEVICES], "device_id string")
    found = rows.select("device_id", key_hash_column("device_id"), *(layout.grouping_key() for layout in layouts))
    for device_id, hash_value, *keys in found.collect():
        assert hash_value == key_hash(device_id)
        assert keys == [layout.grouping_key_of(device_id) for layout in layouts]
