"""The cause and the remedy that users see in place of an engine's long message."""

import pytest

from sessionization.spark.engine.error_text import remedy_for, root_cause

JAVA = """An error occurred while calling o5316.save.
: org.apache.spark.SparkException: Job aborted.
	at org.apache.spark.Foo.bar(Foo.scala:1)
Caused by: org.apache.spark.sql.delta.DeltaInvariantViolationException: [CHECK] constraint x violated
	at org.apache.spark.Foo.baz(Foo.scala:2)
	... 1 more
"""
PYTHON = """[STREAM_FAILED] Query terminated with exception: [PYTHON_EXCEPTION]
Traceback (most recent call last):
  File "worker.py", line 1, in main
ValueError: state entry with status 'paused'
"""
CONNECT = """[DELTA_TABLE_NOT_FOUND] Delta table x doesn't exist.

JVM stacktrace:
org.apache.spark.sql.delta.DeltaAnalysisException
\tat org.apache.spark.Foo.bar(Foo.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (CONNECT, "[DELTA_TABLE_NOT_FOUND] Delta table x doesn't exist."),
        (f"{CONNECT}Caused by: java.io.IOException: gone\n", "java.io.IOException: gone"),
        (JAVA, "org.apache.spark.sql.delta.DeltaInvariantViolationException: [CHECK] constraint x violated"),
        (PYTHON, "ValueError: state entry with status 'paused'"),
        (": java.io.IOException: No space left on device\n\tat x", "java.io.IOException: No space left on device"),
        ("sessionization.errors.StreamError: java.io.IOException: gone", "java.io.IOException: gone"),
        ("sessionization.avro.registry._AwayError: schema_registry http://r does", "schema_registry http://r does"),
        ("nothing known\nsecond line", "nothing known"),
        ("ValueError: " + "x" * 100_000, "ValueError: " + "x" * 488),
        ("", ""),
    ],
)
def test_the_root_cause_of_a_message_is_found(text: str, cause: str) -> None:
    assert root_cause(text) == cause


def test_a_known_cause_has_its_own_remedy_and_any_other_cause_the_general_one() -> None:
    lost = "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position 810 is out of range"
    behind = "[STREAM_FAILED] Query [id = 1] terminated with exception: Some data may have been lost because"
    assert remedy_for([lost, behind]).startswith("the brokers are behind, or have deleted messages")
    assert "new tables" not in remedy_for([lost])
    assert remedy_for(["java.io.IOException: No space left on device"]).startswith("nothing is lost: make room")
    refused = "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid username"
    assert remedy_for([refused]).startswith("the brokers do not let this job in any more; nothing is lost: check")
    for log in (
        "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.",
        "java.lang.IllegalStateException: Multiple streaming queries are concurrently using file:/c/archive/sources/0",
    ):
        assert remedy_for([log]).startswith("another run has written to this checkpoint")
    away = "query sessionize stopped: schema_registry http://r does not answer (Connection refused): is it up?"
    assert remedy_for([away]) == "nothing is lost: once the registry answers, start again with the same options"
    assert remedy_for(["RuntimeError: no"]).startswith("nothing is lost: fix the cause")


def test_the_cause_of_a_damaged_state_says_that_the_state_cannot_be_loaded() -> None:
    engine = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.
\tat org.apache.spark.Foo.bar(Foo.scala:1)
Caused by: java.io.EOFException: Stream ended prematurely
"""
    cause = root_cause(engine)
    assert cause == "the state cannot be loaded: java.io.EOFException: Stream ended prematurely"
    assert root_cause(f"sessionization.errors.StreamError: {cause}") == cause
    assert "docs/runbook.md" in remedy_for([cause])


@pytest.mark.parametrize("cause", ["java.io.IOException: No space left on device", "java.lang.Exception: UNRELEASED"])
def test_other_causes_of_a_failed_state_load_are_not_reported_as_damage(cause: str) -> None:
    text = f": org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error\nCaused by: {cause}\n"
    assert root_cause(text) == cause
    assert "damaged" not in remedy_for([root_cause(text)])


def test_a_cause_has_one_remedy() -> None:
    assert remedy_for(["the state cannot be loaded: java.io.IOException: No space left on device"]).count(";") == 0
