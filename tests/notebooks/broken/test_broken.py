# Databricks notebook source
# MAGIC %md
# MAGIC One test passes and two fail on purpose, one of them in an assertion of Spark. The report must show this.

# COMMAND ----------

import pytest

from sessionization.command_line.widgets import make_job_run_id_widget

make_job_run_id_widget(dbutils.widgets)

# COMMAND ----------

# MAGIC %run ../../nutter/proof

# COMMAND ----------

from pyspark.sql.types import LongType, StringType, StructField, StructType
from pyspark.testing.utils import assertSchemaEqual

pytestmark = pytest.mark.job


class BrokenFixture(NutterFixture):
    def run_holds(self):
        self.sum = 1 + 1

    def assertion_holds(self):
        assert self.sum == 2

    def run_plain_assertion(self):
        self.sum = 1 + 1

    def assertion_plain_assertion(self):
        assert self.sum == 3, "two is not three"

    def run_schema_assertion(self):
        self.found = StructType([StructField("beat", StringType())])

    def assertion_schema_assertion(self):
        assertSchemaEqual(self.found, StructType([StructField("beat", LongType())]))


# COMMAND ----------

report(BrokenFixture())
