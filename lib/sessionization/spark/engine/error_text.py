"""Reduce an engine's long message to one line, find the remedy, and report that the engine has died."""

import contextlib
import re
import subprocess
from collections.abc import Iterable, Iterator

from py4j.protocol import Py4JNetworkError

from sessionization import private_py4j, private_spark
from sessionization.errors import StreamError

_EXCEPTION_LINE = re.compile(r"^(?:Caused by: |: )?((?:[\w$]+\.)*\w*(?:Error|Exception)\b(?:: .+)?)$", re.MULTILINE)
_CONNECT_STACK = re.compile(r"\n+JVM stacktrace:\n[\w.$]+$", re.MULTILINE)
"""What Spark Connect adds to a message: the exception's bare name, which would count as the innermost cause."""
_OWN_ERROR_PREFIX = re.compile(r"^sessionization(?:\.\w+)+: ")
_PREDICATE = re.compile(r" \(for example \w+ \(Map\(.*\)\)\)(?= in the source table)")
"""What Delta quotes of a statement that changed a source table: the condition of an erasure names a player."""
_MAX_CAUSE_LENGTH = 500
# Causes that prevent the loading of a state whose files are intact.
_NO_FILE_FAULT = r"No space left|quota|UNRELEASED|[Ii]nterrupted|[Tt]imeout|OutOfMemory|Too many open files|Permission"
_STATE_IS_DAMAGED = "the state cannot be loaded: "

_REMEDIES = (
    (
        r"No space left on device|Disk quota exceeded|File too large",
        "nothing is lost: make room on that disk, start again with the same options",
    ),
    (
        r"OffsetOutOfRangeException|KAFKA_DATA_LOSS|data may have been lost",
        "the brokers are behind, or have deleted messages that were not read yet: start again; if they are gone for "
        "good, start once with --accept-data-loss; if the topic was made anew, or these are other brokers, see "
        "docs/runbook.md, 'A topic was deleted'",
    ),
    (
        r"KAFKA_MALFORMED_RECORD_TIMESTAMP",
        "a producer gave that record a time that is none: delete the partition's records up to it "
        "(kafka-delete-records), start once with --accept-data-loss, and set message.timestamp.type=LogAppendTime",
    ),
    (
        r"kafka\.common\.errors\.(?:Timeout|Disconnect)Exception",
        "the brokers do not answer; nothing is lost: once they do, start again with the same options",
    ),
    (
        r"kafka\.common\.errors\.\w*(?:Authentication|Authorization)Exception"
        r"|retrieving token from callback handler|reading the token endpoint response",
        "the brokers do not let this job in any more; nothing is lost: check kafka.sasl.jaas.config and the user's "
        "permissions, start again with the same options",
    ),
    (
        r"stopped: schema_registry ",
        "nothing is lost: once the registry answers, start again with the same options",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using",
        "another run has written to this checkpoint, perhaps one that had slept longer than its lease; "
        "nothing is lost: see that no other run works on it, start again with the same options",
    ),
    (
        _STATE_IS_DAMAGED,
        "a file below sessionize/state in the checkpoint is damaged: "
        "see docs/runbook.md, 'A file of the state is damaged'",
    ),
)
_EXIT_WAIT_S = 1
_START_AGAIN = "nothing is lost: fix the cause, start again with the same options"


def root_cause(text: str) -> str:
    """Return the innermost cause in an engine's message: the last line that names an exception, or the first line."""
    text = _CONNECT_STACK.sub("", text)
    exception_lines = _EXCEPTION_LINE.findall(text)
    cause = _OWN_ERROR_PREFIX.sub("", exception_lines[-1] if exception_lines else text.strip().partition("\n")[0])
    cause = _PREDICATE.sub("", cause)
    # The innermost cause, such as the end of a stream, then does not say that a file of the state is unreadable.
    is_file_fault = "[CANNOT_LOAD_STATE_STORE" in text and not re.search(_NO_FILE_FAULT, cause)
    if is_file_fault and not cause.startswith(_STATE_IS_DAMAGED):
        cause = f"{_STATE_IS_DAMAGED}{cause}"
    return cause[:_MAX_CAUSE_LENGTH]


def remedy_for(causes: Iterable[str]) -> str:
    """Return the remedies for the known causes, each once; without a known cause, the advice to start again."""
    known = [next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, cause)), None) for cause in causes]
    return "; ".join(dict.fromkeys(filter(None, known))) or _START_AGAIN


@contextlib.contextmanager
def explain_engine_death(log_place: str) -> Iterator[None]:
    """Report in one line that the engine has died, whichever call in the body fails because of it.

    `log_place` is the text of `describe_log`. Raises `StreamError`.
    """
    private_spark.silence_lost_connections()
    private_py4j.silence_lost_connections()
    try:
        yield
    except Exception as error:
        if not isinstance(error, (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError)) and not _has_ended():
            raise
        msg = (
            f"the engine has died (was it killed, or out of memory? see the end of {log_place}); "
            "if it dies again, see docs/runbook.md, 'A file ends the engine'; "
            "nothing is lost: start again with the same options"
        )
        raise StreamError(msg) from error


def _has_ended() -> bool:
    """Whether the local engine's process has ended. Calls to it then fail in many ways, some of them misleading."""
    process = private_spark.engine_process()
    if process is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_WAIT_S)
    return process.poll() is not None
