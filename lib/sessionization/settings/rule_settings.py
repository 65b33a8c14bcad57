"""The section of the session rules, which the operator and the parser share."""

from typing import Annotated

from pydantic import Field

from sessionization.core.session_state import Rules
from sessionization.durations import DAY_MS, HOUR_MS, MINUTE_MS, Duration, PositiveDuration
from sessionization.message_limits import EventTimeLimits
from sessionization.settings.section import Section


class RuleSettings(Section):
    """The session rules (docs/session-rules.md)."""

    heartbeat_ms: PositiveDuration = Field(30_000, description="how often a live session emits a heartbeat")
    session_timeout_ms: PositiveDuration = Field(
        12 * HOUR_MS,
        description="the longest a session stays live without an End (processing time): "
        "longer than anybody plays at a stretch",
    )
    late_retention_ms: PositiveDuration = Field(
        10 * MINUTE_MS,
        description="how long a closed session, or an End without Start, is remembered (processing time): "
        "longer than a sender may take to repeat an upload",
    )
    inactivity_timeout_ms: PositiveDuration | None = Field(
        None,
        description="a live session without a sign of life for so long is over (processing time), and session-timeout "
        "has no effect; every client has to send an event of the map's kinds.activity more often; by default off",
    )
    max_sessions_per_device: int = Field(
        64, ge=1, le=10_000, description="bound on the remembered sessions of a device"
    )
    max_clock_skew_ms: Annotated[Duration, Field(ge=0)] = Field(
        10 * MINUTE_MS, description="an event further ahead of its ingest time than this is quarantined"
    )
    max_event_age_ms: Annotated[Duration, Field(ge=0)] = Field(
        7 * DAY_MS, description="an event older than this at its ingest time is quarantined"
    )

    @property
    def of_sessions(self) -> Rules:
        """Those of the operator; the others are the parser's."""
        return Rules(
            heartbeat_ms=self.heartbeat_ms,
            session_timeout_ms=self.session_timeout_ms,
            late_retention_ms=self.late_retention_ms,
            max_sessions_per_device=self.max_sessions_per_device,
            inactivity_timeout_ms=self.inactivity_timeout_ms,
        )

    @property
    def of_event_times(self) -> EventTimeLimits:
        """Those of the parser."""
        return EventTimeLimits(self.max_clock_skew_ms, self.max_event_age_ms)
