"""Checks, in the place where the sessionize job will run, what it needs: storage, tables, lease, topics, a query.

The checks write into a folder in `--checkpoints` and into a table beside the job's tables, both named
`sessionization_preflight`, and delete both, also those that a killed run has left. What they create where it is missing
stays: the folders and, where a lease is checked, the table `job_lease`. So run them as the job's user. No record is
sent to a topic. The checks may run beside the job, where cores are free, but one run at a time.

Whether a checkpoint fits the options and the tables is not checked: the start says so before it changes anything.
"""

import contextlib
import time
from collections.abc import Callable
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError, SessionizationError
from sessionization.files import remove_tree
from sessionization.job.preparation import plain_errors
from sessionization.ops.preflight_checks import (
    NAME,
    check_input,
    check_lease,
    check_logs,
    check_mode,
    check_output_topic,
    check_storage,
    check_tables,
    check_topics_and_policy,
    check_trial_query,
)
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.session import job_session, refuse_other_default_storage, session_for_uris
from sessionization.spark.tables.location import TableLocation
from sessionization.time_limit import CheckTimeoutError, call_within

_LOG_DESTINATION = "spark.databricks.clusterUsageTags.clusterLogDestination"
"""Where Databricks says in which folder the cluster stores its logs."""
_WITHIN_S = 300.0
_LONGEST_CAUSE = 500


def preflight(settings: SessionizeSettings, say: Say) -> None:
    """Run every check, and print a line for each: what it saw, or why it failed. A check that hangs ends after minutes.

    Raises `ConfigurationError` at the end where a check has failed.
    """
    folder = settings.state.checkpoints / NAME
    with contextlib.ExitStack() as stack:
        with plain_errors("Spark cannot be started"):
            stack.enter_context(session_for_uris(settings, say))
            spark = stack.enter_context(job_session())
        refuse_other_default_storage(spark, settings)
        failed = [name for name, check in _checks(spark, settings, say).items() if not _passes(name, check, say)]
        if "storage" not in failed:
            remove_tree(folder)
        if "/Volumes/" in (destination := spark.conf.get(_LOG_DESTINATION, "") or ""):
            _passes("logs", partial(check_logs, destination), say, "warning")  # the job runs without
    if failed:
        msg = f"{', '.join(failed)} failed: do what the lines above say, and run this again"
        raise ConfigurationError(msg)
    say("all is well here: start jobs/sessionize.py with the same options")


def _checks(spark: SparkSession, settings: SessionizeSettings, say: Say) -> dict[str, Callable[[], str]]:
    """The checks by name, in order."""
    location, folder = TableLocation.of(settings.tables), settings.state.checkpoints / NAME
    checks: dict[str, Callable[[], str]] = {"storage": partial(check_storage, folder)}
    if settings.input_folder is not None:
        checks["input"] = partial(check_input, settings.input_folder)
    if settings.pace.mode == "real-time":
        checks["mode"] = check_mode
    if settings.source.type == "kafka":
        checks["topics"] = partial(check_topics_and_policy, spark, settings, say)
    if settings.sink.type == "kafka":
        checks["output topic"] = partial(check_output_topic, spark, settings)
    checks["tables"] = partial(check_tables, spark, location)
    checks["lease"] = partial(check_lease, spark, location, say)
    checks["stream"] = partial(check_trial_query, spark, folder, say)
    return checks


def _passes(name: str, check: Callable[[], str], say: Say, if_not: str = "FAILED") -> bool:
    began_s = time.monotonic()
    try:
        found = call_within(_WITHIN_S, check)
    except CheckTimeoutError:
        cause = f"no answer within {_WITHIN_S:g} s: see the driver's log, and whether the storage or the brokers answer"
    except SessionizationError as error:
        cause = str(error)
    except OSError as error:
        cause = f"{error.filename or name} cannot be used ({error.strerror}): see to its space and its rights"
    except PySparkException as error:  # a right that is missing stands in a later line
        cause = " ".join(str(error).partition("JVM stacktrace:")[0].split())[:_LONGEST_CAUSE]
    except Py4JError as error:
        cause = root_cause(str(error))
    else:
        say(f"{'ok':8} {name}: {found} ({time.monotonic() - began_s:.1f} s)")
        return True
    say(f"{if_not:8} {name}: {cause}")
    return False
