"""The rules of a job that lives long, as options and as the core takes them."""

from sessionization.core.session_state import Rules

RULES = Rules(heartbeat_ms=2_000, session_timeout_ms=600_000, late_retention_ms=20_000, max_sessions_per_device=8)
OPTIONS = (
    "--trigger=2s", "--heartbeat=2s", "--session-timeout=10m", "--late-retention=20s", "--max-sessions-per-device=8",
)  # fmt: skip
