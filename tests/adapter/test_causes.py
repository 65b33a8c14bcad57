"""What a person sees of an engine's long message."""

import pytest

from sessionization.spark.causes import first_cause

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


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (JAVA, "org.apache.spark.sql.delta.DeltaInvariantViolationException: [CHECK] constraint x violated"),
        (PYTHON, "ValueError: state entry with status 'paused'"),
        (": java.io.IOException: No space left on device\n\tat x", "java.io.IOException: No space left on device"),
        ("nothing known\nsecond line", "nothing known"),
        ("", ""),
    ],
)
def test_first_cause(text: str, cause: str) -> None:
    assert first_cause(text) == cause


def test_a_huge_message_is_cut() -> None:
    assert len(first_cause("ValueError: " + "x" * 100_000)) == 500
