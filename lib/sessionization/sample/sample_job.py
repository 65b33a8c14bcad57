"""Say what an event map understands of a file of messages: for writing a map, without Spark and without Java."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pydantic import Field

from sessionization.errors import ConfigurationError
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, read_event_map
from sessionization.message_limits import MAX_VALUE_BYTES
from sessionization.sample.read_message import Message
from sessionization.sample.sample_report import report_on
from sessionization.say import Say
from sessionization.settings.rule_settings import RuleSettings
from sessionization.settings.section import EVENTS, EVENTS_METAVAR, Section
from sessionization.spark.input.message_lines import read_lines
from sessionization.spark.input.stream_folders import list_folder

MOST_MESSAGES = 1_000


class SampleSettings(Section):
    """Say what an event map understands of the messages in files. It needs no Spark, and changes nothing."""

    events: str = Field(DEFAULT, description=EVENTS, json_schema_extra=EVENTS_METAVAR)
    sample: Path = Field(
        description=f"file of JSON lines, or folder of such files, as the job reads them; the first {MOST_MESSAGES:,} "
        "messages are read"
    )
    stream: str | None = Field(
        None,
        description="stream of the map that the messages are of; by default the map's only one, or the one that has "
        "the name of the files' folder",
    )


def describe_sample(settings: SampleSettings, say: Say) -> None:
    """Print what the map understood of the sample.

    Raises `ConfigurationError` where the file cannot be read, or no message in it is a valid event.
    """
    events = read_event_map(settings.events)
    if events.is_avro:
        msg = f"--events {settings.events}: value: avro is read from topics: leave --sample out, and name the topics"
        raise ConfigurationError(msg)
    stream = _stream(settings, events)
    try:
        messages = list(islice(_messages(settings.sample, stream, say), MOST_MESSAGES))
    except OSError as error:
        msg = f"--sample {settings.sample} cannot be read ({error.strerror}): name a file of JSON lines"
        raise ConfigurationError(msg) from error
    if not messages:
        msg = f"--sample {settings.sample} holds no message: name a file of JSON lines, or a folder of such files"
        raise ConfigurationError(msg)
    # A map that names Activities is judged with them, also before the job uses them.
    report = report_on(messages, events, RuleSettings().of_event_times, has_activity=bool(events.kinds.activity))
    for line in report.lines:
        say(line)
    if report.all_skipped:
        msg = f"{settings.sample} has no Start and no End: choose a sample with some, or correct kinds in the map"
        raise ConfigurationError(msg)
    if not report.events:
        msg = f"--events {settings.events} makes no event of {settings.sample}: correct the map by the lines above"
        raise ConfigurationError(msg)


def _messages(sample: Path, stream: str, say: Say) -> Iterator[Message]:
    """The messages of a file, or of the files of a folder in the order of their names; say what is not read there."""
    is_folder = sample.is_dir()
    files = [sample]
    if is_folder:
        found = list_folder(sample)
        files = sorted(Path(path) for path, _ in found.files)
        for warning in found.warnings(str(sample)).values():
            say(warning)
    for file in files:
        ingested_ms = int(file.stat().st_mtime * 1_000)
        lines = (value for values, _ in read_lines(file, MAX_VALUE_BYTES + 1) for value in values)
        for number, value in enumerate(lines, start=1):
            place = f"{file.name}, message {number}" if is_folder else f"message {number}"
            yield Message(stream, value, ingested_ms, place)


def _stream(settings: SampleSettings, events: EventMap) -> str:
    sample = settings.sample.absolute()
    name = settings.stream or (sample if sample.is_dir() else sample.parent).name
    if name in events.streams:
        return name
    if settings.stream is None and len(events.streams) == 1:
        return events.stream_names[0]
    what = "is missing" if settings.stream is None else f"{settings.stream!r} is not known"
    msg = f"--stream {what}: write one of the map's, {', '.join(events.stream_names)}"
    raise ConfigurationError(msg)
