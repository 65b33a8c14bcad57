"""Random weeks of a studio's players: what their devices send, when it arrives, and the micro-batches that take it."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sessionization.core.events import Activity, End, Event, Start
from sessionization.core.session_state import Rules
from sessionization.durations import DAY_MS, HOUR_MS

MINUTE_MS = 60_000
RULES = Rules(heartbeat_ms=HOUR_MS, session_timeout_ms=30 * HOUR_MS, late_retention_ms=2 * HOUR_MS)
WITH_SIGNS = replace(RULES, inactivity_timeout_ms=HOUR_MS, late_retention_ms=2 * HOUR_MS)
_LAGS_MS = (1_000, 1_000, 1_000, 90 * MINUTE_MS, 9 * HOUR_MS, 2 * DAY_MS)
DAY_WITHOUT_STARTS = 3
_PLATFORMS = ("pc", "console")

Arrival = tuple[int, str, Event]
"""When an event arrives, of which device, and what it says."""


@dataclass(frozen=True, slots=True)
class Week:
    """One of many weeks that are played at once: devices, accounts and titles are its own."""

    number: int
    begins_ms: int

    def arrivals(self) -> Iterator[Arrival]:
        rng = random.Random(self.number)
        accounts = [None, *(f"{name}-{self.number}" for name in ("ann", "bob"))]
        titles = [None, f"chess-{self.number}", f"go-{self.number}"]
        for device in range(3):
            device_id, platform = f"d{self.number}-{device}", _PLATFORMS[device % 2]
            account, at_ms, session_id = rng.choice(accounts), self.begins_ms + rng.randrange(DAY_MS), 0
            while at_ms < self.begins_ms + 7 * DAY_MS:
                if (at_ms - self.begins_ms) // DAY_MS == DAY_WITHOUT_STARTS:
                    at_ms += DAY_MS
                if rng.random() < 0.3:
                    account = rng.choice(accounts)
                if rng.random() < 0.95:  # else the id is used again
                    session_id += 1
                yield from self._session(rng, device_id, session_id, at_ms, platform, account, rng.choice(titles))
                at_ms += rng.choice((10 * MINUTE_MS, 5 * HOUR_MS, 30 * HOUR_MS, 2 * DAY_MS)) + rng.randrange(HOUR_MS)

    @staticmethod
    def _session(
        rng: random.Random, device_id: str, session_id: int, at_ms: int, platform: str, account: str | None,
        title: str | None,
    ) -> Iterator[Arrival]:  # fmt: skip
        length_ms = rng.choice((0, MINUTE_MS, 40 * MINUTE_MS, 8 * HOUR_MS, 27 * HOUR_MS)) + rng.randrange(MINUTE_MS)
        foreground_s = rng.choice((None, length_ms // 1_500, length_ms // 500))
        end_account = account if rng.random() < 0.9 else None
        start = Start(session_id, at_ms, platform, 0, account if rng.random() < 0.9 else None, (title,))
        end = End(session_id, at_ms + length_ms, platform, 0, end_account, foreground_s, (title,))
        signs = [
            Activity(session_id, at_ms + share * length_ms // 4, platform, 0, account, (title,))
            for share in range(1, 4)
        ]
        for event, chance in ((start, 0.95), (end, 0.75), (replace(end), 0.1), *((sign, 0.7) for sign in signs)):
            if rng.random() < chance:
                arrives_ms = event.at_ms + rng.choice(_LAGS_MS)
                yield arrives_ms, device_id, replace(event, ingested_ms=arrives_ms)


def micro_batches(weeks: list[Week], every_ms: int = HOUR_MS) -> Iterator[tuple[int, list[tuple[str, Event]]]]:
    """The micro-batches that take all that arrives in these weeks, and what is due in the three days after them."""
    by_batch: dict[int, list[tuple[str, Event]]] = defaultdict(list)
    for week in weeks:
        for arrives_ms, device_id, event in week.arrivals():
            by_batch[-(-arrives_ms // every_ms)].append((device_id, event))
    first = min(by_batch)
    for number in range(first, max(*by_batch, first + 10 * DAY_MS // every_ms) + 1):
        yield number * every_ms, by_batch[number]
