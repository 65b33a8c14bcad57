# Databricks notebook source
# MAGIC %md
# MAGIC The function that the test notebooks of this folder share; they `%run` this notebook. It is not a test.
# MAGIC It has no widgets: under `%run` a workspace would give them their defaults.

# COMMAND ----------

from runtime.nutterfixture import NutterFixture

from sessionization.command_line.widgets import is_run_by_a_job

# COMMAND ----------


def report(fixture: NutterFixture) -> None:
    """Run the tests and return the result to nutter's CLI; in a job fail the task if a test failed.

    Nutter pickles exceptions and fails on those of Spark, which cannot be unpickled. So each becomes a plain one first.
    """
    result = fixture.execute_tests()
    failed = [test for test in result.test_results.results if not test.passed]
    for test in failed:
        test.exception = Exception(f"{type(test.exception).__name__}: {str(test.exception)[:4000]}")
        test.stack_trace = test.stack_trace[-8000:]
    print(result.to_string())
    if not is_run_by_a_job(dbutils.widgets):
        result.exit(dbutils)
    if failed:
        raise AssertionError("; ".join(f"{test.test_name}: {test.exception}" for test in failed))
