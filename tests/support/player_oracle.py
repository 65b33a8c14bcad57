"""The tables of the job players in plain Python, from rows of `sessions`: a second implementation."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from itertools import groupby, product
from typing import Any
from zoneinfo import ZoneInfo

ALL = "all"
_LATER = (1, 3, 7, 14, 28, 30)


@dataclass(frozen=True, slots=True)
class Played:
    """A session with a known Start; `until_ms` is its end, or the instant up to which a live one counts."""

    device_id: str
    session_id: int
    account_id: str | None
    title: str | None
    platform: str
    started_ms: int
    until_ms: int
    end_reason: str | None
    foreground_s: int | None

    @property
    def player(self) -> tuple[str, str]:
        return ("device", self.device_id) if self.account_id is None else ("account", self.account_id)

    @property
    def cells(self) -> Iterator[tuple[str, str]]:
        """The titles and platforms in which it counts."""
        return product({ALL, self.title} - {None}, {ALL, self.platform})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Part:
    """What of a session lies in a day."""

    session: Played
    day: date
    from_ms: int
    to_ms: int

    @property
    def starts_here(self) -> bool:
        return self.from_ms == self.session.started_ms

    @property
    def foreground_ms(self) -> int:
        session = self.session
        length_ms = session.until_ms - session.started_ms
        whole_ms = min((session.foreground_s or 0) * 1_000, length_ms)
        return (_share(whole_ms, self.to_ms - session.started_ms, length_ms)
                - _share(whole_ms, self.from_ms - session.started_ms, length_ms))  # fmt: skip


def _share(whole_ms: int, part_ms: int, length_ms: int) -> int:
    return whole_ms * part_ms // length_ms if length_ms else 0


def parts_of(session: Played, zone: ZoneInfo) -> Iterator[Part]:
    """The days of a session; one that ends as it starts has one day."""
    day = datetime.fromtimestamp(session.started_ms / 1_000, zone).date()
    while True:
        begins_ms, ends_ms = midnight_ms(day, zone), midnight_ms(day + timedelta(days=1), zone)
        yield Part(session, day, max(begins_ms, session.started_ms), min(ends_ms, session.until_ms))
        if session.until_ms <= ends_ms:
            return
        day += timedelta(days=1)


def midnight_ms(day: date, zone: ZoneInfo) -> int:
    """When a day begins."""
    return int(datetime.combine(day, time(), zone).astimezone(UTC).timestamp()) * 1_000


@dataclass(frozen=True, slots=True)
class PlayerOracle:
    """The rows of the tables, by their keys, without internal columns."""

    player_days: dict[tuple, dict[str, Any]]
    daily_activity: dict[tuple, dict[str, Any]]
    retention: dict[tuple, dict[str, Any]]
    player_first_days: dict[tuple, dict[str, Any]]


def player_oracle(sessions: Iterable[Played], zone_name: str, as_of_ms: int) -> PlayerOracle:
    zone = ZoneInfo(zone_name)
    today = datetime.fromtimestamp(as_of_ms / 1_000, zone).date()
    parts = [part for session in sessions for part in parts_of(session, zone) if part.day <= today]
    days_of: dict[tuple, set[date]] = defaultdict(set)
    """The days of each player in each title and platform."""
    for part in parts:
        for title, platform in part.session.cells:
            days_of[part.session.player, title, platform].add(part.day)
    firsts = {(player, title): min(days) for (player, title, platform), days in days_of.items() if platform == ALL}
    return PlayerOracle(
        _player_days(parts, firsts),
        _daily_activity(parts, days_of, firsts, today),
        _retention(days_of, firsts, today),
        {(*player, title): {"first_day": day} for (player, title), day in firsts.items()},
    )


def _player_days(parts: Iterable[Part], firsts: dict[tuple, date]) -> dict[tuple, dict[str, Any]]:
    rows: dict[tuple, list[Part]] = defaultdict(list)
    for part in parts:
        rows[(part.day, *part.session.player, part.session.title, part.session.platform)].append(part)
    return {
        key: {
            "sessions": sum(part.starts_here for part in group),
            "play_ms": sum(part.to_ms - part.from_ms for part in group),
            "foreground_ms": sum(part.foreground_ms for part in group),
            "first_ms": min(part.from_ms for part in group),
            "last_ms": max(part.to_ms for part in group),
            "is_first_day": firsts[group[0].session.player, ALL] == key[0],
            "provisional": any(part.session.end_reason is None for part in group),
        }
        for key, group in rows.items()
    }


def _daily_activity(
    parts: Iterable[Part], days_of: dict[tuple, set[date]], firsts: dict[tuple, date], last_day: date
) -> dict[tuple, dict[str, Any]]:
    groups: dict[tuple, list[Part]] = defaultdict(list)
    for part in parts:
        for cell in part.session.cells:
            groups[(part.day, *cell)].append(part)
    rows = {}
    first_day = min(firsts.values(), default=last_day)
    for number in range((last_day - first_day).days + 1):
        day = first_day + timedelta(days=number)
        for title, platform in {key[1:] for key in days_of}:
            days = {player: played for (player, *cell), played in days_of.items() if cell == [title, platform]}
            dau, wau, mau = (
                sum(any(day - timedelta(days=ago) in played for ago in range(window)) for played in days.values())
                for window in (1, 7, 28)
            )
            if mau:
                of_day = groups[day, title, platform]
                new = sum(day in played and firsts[player, title] == day for player, played in days.items())
                rows[day, title, platform] = {
                    "dau": dau, "wau": wau, "mau": mau, "stickiness": dau / mau,
                    "new_players": new, "returning_players": dau - new,
                    **_of_parts(of_day, dau),
                }  # fmt: skip
    return rows


def _of_parts(parts: list[Part], dau: int) -> dict[str, Any]:
    begun = [part.session for part in parts if part.starts_here]
    ended = [session for session in begun if session.end_reason is not None]
    lengths_ms = sorted(session.until_ms - session.started_ms for session in ended)
    without_end = sum(session.end_reason != "reported" for session in ended)
    peak, peak_ms = _peak(parts)
    return {
        "sessions": len(begun),
        "sessions_per_player": len(begun) / dau if dau else None,
        "play_ms": sum(part.to_ms - part.from_ms for part in parts),
        "foreground_ms": sum(part.foreground_ms for part in parts),
        "length_p50_ms": _quantile(lengths_ms, Fraction(1, 2)),
        "length_p90_ms": _quantile(lengths_ms, Fraction(9, 10)),
        "peak_sessions": peak,
        "peak_minute_ms": None if peak_ms is None else peak_ms // 60_000 * 60_000,
        "ended": len(ended),
        "share_without_end": without_end / len(ended) if ended else None,
        "provisional": any(part.session.end_reason is None for part in parts),
    }


def _quantile(sorted_values: list[int], share: Fraction) -> int | None:
    """The smallest value that so many are not above."""
    count = len(sorted_values)
    return next((value for rank, value in enumerate(sorted_values, 1) if Fraction(rank, count) >= share), None)


def _peak(parts: list[Part]) -> tuple[int, int | None]:
    """The most sessions at one instant, and the first such instant."""
    played = [part for part in parts if part.to_ms > part.from_ms]
    levels = [
        (sum(part.from_ms <= at_ms < part.to_ms for part in played), -at_ms)
        for at_ms in {part.from_ms for part in played}
    ]
    level, negative_ms = max(levels, default=(0, None))
    return level, None if negative_ms is None else -negative_ms


def _retention(
    days_of: dict[tuple, set[date]], firsts: dict[tuple, date], last_day: date
) -> dict[tuple, dict[str, Any]]:
    rows = {}
    for cohort in {(day, title) for (_, title), day in firsts.items()}:
        first_day, title = cohort
        players = [player for (player, its_title), day in firsts.items() if (day, its_title) == cohort]
        rows[cohort] = {"players": len(players)} | {
            f"day_{later}": sum(first_day + timedelta(days=later) in days_of[player, title, ALL] for player in players)
            if first_day + timedelta(days=later) <= last_day
            else None
            for later in _LATER
        }
    return rows


@dataclass(frozen=True, slots=True)
class PlayerSession:
    """A row of the view player_sessions."""

    number: int
    gap_ms: int | None
    overlaps: bool


def player_sessions(sessions: Iterable[Played]) -> dict[tuple[str, int], PlayerSession]:
    rows = {}
    order = sorted(
        sessions, key=lambda session: (session.player, session.started_ms, session.device_id, session.session_id)
    )
    for _, group in groupby(order, lambda session: session.player):
        of_player = list(group)
        for number, session in enumerate(of_player):
            before = [other.until_ms for other in of_player[:number]]
            gap_ms = max(0, session.started_ms - max(before)) if before else None
            overlaps = any(until_ms > session.started_ms for until_ms in before) or any(
                other.started_ms < session.until_ms for other in of_player[number + 1 :]
            )
            rows[session.device_id, session.session_id] = PlayerSession(number + 1, gap_ms, overlaps)
    return rows
