"""What an engine's long message says in one line, and what to do about it."""

import re
from collections.abc import Iterable

_NAMED = re.compile(r"^(?:Caused by: |: )?((?:[\w$]+\.)*\w*(?:Error|Exception)\b(?:: .+)?)$", re.MULTILINE)
_OWN = re.compile(r"^sessionization\.errors\.\w+: ")
_LONGEST = 500
_STATE_IS_DAMAGED = "the state cannot be loaded: "

_REMEDIES = (
    (
        r"OffsetOutOfRangeException|KAFKA_DATA_LOSS",
        "the brokers have deleted messages that were not read yet (retention too short, or the topic was made anew), or "
        "these are other brokers: if the messages are gone for good, start once with --accept-data-loss",
    ),
    (r"UnknownTopicOrPartitionException", "a topic is gone: bring it back, start again with the same options"),
    (
        r"kafka\.common\.errors\.(?:Timeout|Disconnect)Exception",
        "the brokers do not answer; nothing is lost: once they do, start again with the same options",
    ),
    (
        _STATE_IS_DAMAGED,
        "a file below sessionize/state in the checkpoint is damaged: see docs/runbook.md, 'A file of the state is damaged'",
    ),
    (
        r"No space left on device|Disk quota exceeded|File too large",
        "nothing is lost: make room on that disk, start again with the same options",
    ),
)
_START_AGAIN = "nothing is lost: mend the cause, start again with the same options"


def first_cause(text: str) -> str:
    """The innermost cause in an engine's message: the last line that names an exception, else the first line."""
    named = _NAMED.findall(text)
    cause = _OWN.sub("", named[-1] if named else text.strip().partition("\n")[0])
    # What is innermost then, such as the end of a stream, does not say what could not be read.
    if "[CANNOT_LOAD_STATE_STORE" in text and not cause.startswith(_STATE_IS_DAMAGED):
        cause = f"{_STATE_IS_DAMAGED}{cause}"
    return cause[:_LONGEST]


def what_to_do(causes: Iterable[str]) -> str:
    """The remedies of those causes that are known, each once."""
    known = [remedy for cause in causes for pattern, remedy in _REMEDIES if re.search(pattern, cause)]
    return "; ".join(dict.fromkeys(known)) or _START_AGAIN
