"""Say what an event map understands of a file of messages: for writing a map, without Spark and without Java."""

from itertools import islice
from pathlib import Path

from pydantic import Field

from sessionization.errors import ConfigurationError
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, read_event_map
from sessionization.message_limits import MAX_VALUE_BYTES
from sessionization.sample.sample_report import Message, report_on
from sessionization.say import Say
from sessionization.settings.section import EVENTS, EVENTS_METAVAR, Section
from sessionization.settings.sessionize_settings import RuleSettings
from sessionization.spark.input.message_lines import read_lines

MOST_MESSAGES = 1_000


class SampleSettings(Section):
    """Say what an event map understands of the messages in a file. It needs no Spark, and changes nothing."""

    events: str = Field(DEFAULT, description=EVENTS, json_schema_extra=EVENTS_METAVAR)
    sample: Path = Field(
        description=f"file of JSON lines, as files for the job are; its first {MOST_MESSAGES:,} messages are read"
    )
    stream: str | None = Field(
        None,
        description="stream of the map that the messages are of; by default the map's only one, or the one that has "
        "the name of the file's folder",
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
        ingested_ms = int(settings.sample.stat().st_mtime * 1_000)
        lines = (value for values, _ in read_lines(settings.sample, MAX_VALUE_BYTES + 1) for value in values)
        messages = [
            Message(stream, value, ingested_ms, f"message {number}")
            for number, value in enumerate(islice(lines, MOST_MESSAGES), start=1)
        ]
    except OSError as error:
        msg = f"--sample {settings.sample} cannot be read ({error.strerror}): name a file of JSON lines"
        raise ConfigurationError(msg) from error
    report = report_on(messages, events, RuleSettings().of_event_times)
    for line in report.lines:
        say(line)
    if not report.events:
        msg = f"--events {settings.events} makes no event of {settings.sample}: correct the map by the lines above"
        raise ConfigurationError(msg)


def _stream(settings: SampleSettings, events: EventMap) -> str:
    name = settings.stream or settings.sample.absolute().parent.name
    if name in events.streams:
        return name
    if settings.stream is None and len(events.streams) == 1:
        return events.stream_names[0]
    what = "is missing" if settings.stream is None else f"{settings.stream!r} is not known"
    msg = f"--stream {what}: write one of the map's, {', '.join(events.stream_names)}"
    raise ConfigurationError(msg)
