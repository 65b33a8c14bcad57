"""The settings that a checkpoint fixes for its lifetime."""

from dataclasses import dataclass

from sessionization.durations import format_duration
from sessionization.settings.sessionize_settings import FilesSource, SessionizeSettings


@dataclass(frozen=True, slots=True)
class PinnedSettings:
    """Settings that must not change, because another value would lose or duplicate rows."""

    source: str
    input: str
    tables: str
    device_groups: int | None
    max_clock_skew_ms: int
    max_event_age_ms: int
    starting_offsets: str
    mode: str
    output_topic: str
    """Fixed from the first change that is sent to the topic until changes go to the tables again."""
    archive: str = "on"
    """Checkpoints of the releases before have none."""

    @classmethod
    def of(cls, settings: SessionizeSettings, tables: str) -> "PinnedSettings":
        return cls(
            source=settings.source.type,
            input=str(settings.input_folder.absolute()) if settings.input_folder is not None else "",
            tables=tables,
            device_groups=settings.state.device_groups,
            max_clock_skew_ms=settings.rules.max_clock_skew_ms,
            max_event_age_ms=settings.rules.max_event_age_ms,
            starting_offsets="earliest"
            if isinstance(settings.source, FilesSource)
            else settings.source.starting_offsets,
            mode=settings.pace.mode,
            output_topic=settings.output_topic,
            archive="on" if settings.archives else "off",
        )

    @property
    def archives(self) -> bool:
        """Whether `raw_events` gets every message."""
        return self.archive == "on"

    def options(self) -> dict[str, str]:
        """Return the fields as options and values of the command line."""
        return {
            "--source": self.source,
            "--input": self.input,
            "--warehouse or --catalog and --schema": self.tables,
            "--device-groups": "not given" if self.device_groups is None else str(self.device_groups),
            "--max-clock-skew": format_duration(self.max_clock_skew_ms),
            "--max-event-age": format_duration(self.max_event_age_ms),
            "--starting-offsets": self.starting_offsets,
            "--mode": self.mode,
            "--output-topic": self.output_topic,
            "--archive": self.archive,
        }
