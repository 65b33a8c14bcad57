# Databricks notebook source
# MAGIC %md
# MAGIC What the test notebooks of this folder share: they `%run` it. Not a test itself, and without widgets: a workspace would give those of
# MAGIC a notebook that is run so their defaults.

# COMMAND ----------

from runtime.nutterfixture import NutterFixture

from sessionization.command_line.widgets import is_run_by_a_job

# COMMAND ----------


def report(fixture: NutterFixture) -> None:
    """Run the tests and hand over the result: to nutter's CLI, or as the outcome of a job's task.

    Nutter pickles exceptions, and fails on Spark's, which cannot be read back: each becomes a plain one before that.
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
