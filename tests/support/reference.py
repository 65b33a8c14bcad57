"""The session rules a second time: slow, mutable and obvious, written from docs/session-rules.md alone.

`core/session_rules.py` runs in production. The property tests compare it with this model. The two therefore
share only the types of events, changes and entries, and the rules' settings: the other finds a misreading in one of
them.
"""

from collections.abc import Callable, Iterable
from zlib import crc32

from sessionization.core.events import Activity, Change, ChangeKind, End, EndReason, Event, Start
from sessionization.core.session_state import Rules
from tests.support.reference_device import Device, PendingEndModel, Session, as_started, canonical_place
from tests.support.reference_sessions import first_known, known_labels

_END_REASONS_OF_AN_END = (EndReason.REPORTED, EndReason.ORPHANED)
"""The end reasons that no later End replaces. A remembered session is orphaned only if a warm start read it."""


class Reference:
    """The devices and the timers of each grouping key; only `micro_batch` changes them.

    `is_grouped`: a key that remembers anything has a timer for the next instant, as with device groups.
    """

    def __init__(
        self, rules: Rules, key_of: Callable[[str], str] = lambda device_id: device_id, *, is_grouped: bool = False
    ) -> None:
        self.rules = rules
        self.key_of = key_of
        self.is_grouped = is_grouped
        self.remembered: dict[str, dict[str, Device]] = {}
        self.timers: dict[str, set[int]] = {}
        self.counters = dict.fromkeys(
            ("events", "duplicate_start", "duplicate_end", "evicted", "activities", "duplicate_activity",
             "late_activity", "implied_starts"), 0
        )  # fmt: skip
        self._now_ms = 0
        self._cause: Event | None = None
        self._changes: list[tuple[str, Change]] = []

    def micro_batch(self, now_ms: int, events: Iterable[tuple[str, Event]]) -> list[tuple[str, Change]]:
        """Apply the events of any devices, in any order; fire the timers that are due, and set what is needed."""
        self._now_ms, self._changes = now_ms, []
        rows = sorted(events, key=lambda row: canonical_place(row[1]))
        due = {key for key, timers_ms in self.timers.items() if min(timers_ms) <= now_ms}
        needed_before = {
            key: self._needed_ms(key) for key in due.union(self.key_of(device_id) for device_id, _ in rows)
        }
        for device_id, event in rows:
            if isinstance(event, Activity) and self.rules.inactivity_timeout_ms is None:
                continue  # skipped
            self._cause = event
            devices = self.remembered.setdefault(self.key_of(device_id), {})
            device = devices.setdefault(device_id, Device(device_id))
            self._hear_of_live(device)
            self._apply(device, event)
        self._cause = None
        for key, before_ms in needed_before.items():
            needed_ms = self._needed_ms(key)
            if needed_ms is not None and (before_ms is None or needed_ms < before_ms):
                self.timers.setdefault(key, set()).add(needed_ms)
            if key in due:
                self._fire_all(key)
        return self._changes

    def devices(self) -> list[Device]:
        """The devices of which something is remembered."""
        all_devices = [device for devices in self.remembered.values() for device in devices.values()]
        return [device for device in all_devices if device.sessions() or device.pending_ends]

    def _fire_all(self, key: str) -> None:
        devices = self.remembered.pop(key, {})
        for device in devices.values():
            self._hear_of_live(device)
            self._fire(device, key)
        left = {device.device_id: device for device in devices.values() if device.sessions() or device.pending_ends}
        if left:
            self.remembered[key] = left
        after_firing = {self._needed_ms(key), *self.timers.pop(key)}
        if left_ms := {timer_ms for timer_ms in after_firing if timer_ms is not None and timer_ms > self._now_ms}:
            self.timers[key] = left_ms

    def _apply(self, device: Device, event: Event) -> None:
        self.counters["events"] += 1
        known = [session for session in device.sessions() if session.newest_change.session_id == event.session_id]
        pending = [entry for entry in device.pending_ends if entry.end.session_id == event.session_id]
        match event:
            case Start() if known and known[0].is_implied:  # S7
                self._start_at_last(device, known[0], event)
            case Start() if known:  # S1
                self.counters["duplicate_start"] += 1
            case Start():
                self._start(device, event, pending)
            case End() if pending or (known and known[0].newest_change.end_reason in _END_REASONS_OF_AN_END):  # E3
                self.counters["duplicate_end"] += 1
            case End() if known:  # E1, E2
                self._end_reported(device, known[0], event)
            case End():  # E4
                device.pending_ends.append(PendingEndModel(event, self._now_ms + self.rules.late_retention_ms))
            case Activity():
                self.counters[self._activity(device, event, known, pending)] += 1
        while len(device.sessions()) + len(device.pending_ends) > self.rules.max_sessions_per_device:
            self.counters["evicted"] += 1
            if device.closed:
                device.closed.pop(0)
            else:
                self._orphan(device, device.pending_ends[0])

    def _start(self, device: Device, start: Start, pending: list[PendingEndModel]) -> None:
        ends = [entry.end for entry in pending]
        account_id = first_known([start.account_id, *(end.account_id for end in ends)])
        started = Change(start.session_id, account_id, start.platform, ChangeKind.STARTED, self._now_ms, start.at_ms)
        labels = known_labels(start.labels, *(end.labels for end in ends))
        new = Session(start.at_ms, self._now_ms, started._replace(duration_ms=0, labels=labels))
        if self.rules.inactivity_timeout_ms is not None:
            new.last_active_ms, new.heard_ms = start.at_ms, self._now_ms
        earlier = [session for session in device.sessions() if session.sort_key() < new.sort_key()]
        later = [session for session in device.sessions() if session.sort_key() > new.sort_key()]
        if device.live is not None and device.live not in later and (pending or not later):  # S2, S4
            self._make_way(device, device.live, start.at_ms)
        self._emit(device, new.newest_change)
        if pending:  # S2
            device.pending_ends.remove(pending[0])
            self._end_reported(device, new, pending[0].end)
        elif later:  # S3
            self._end(device, new, EndReason.SUPERSEDED, later[0].started_ms)
        else:  # S5
            device.live = new
        for before in earlier[-1:]:  # S6
            self._cut(device, before, start.at_ms)

    def _cut(self, device: Device, before: Session, at_ms: int) -> None:
        if before.newest_change.end_reason is not None and (before.newest_change.ended_ms or 0) > at_ms:
            self._end(device, before, before.newest_change.end_reason, at_ms)

    def _make_way(self, device: Device, live: Session, at_ms: int) -> None:
        """S4: a newer session ends the live one, or the live one was over before."""
        if self._was_silent_until(live, at_ms):
            assert live.last_active_ms is not None
            self._end(device, live, EndReason.INACTIVE, live.last_active_ms)
        else:
            self._end(device, live, EndReason.SUPERSEDED, at_ms)

    def _was_silent_until(self, live: Session, at_ms: int) -> bool:
        timeout_ms = self.rules.inactivity_timeout_ms
        return timeout_ms is not None and at_ms - (live.last_active_ms or 0) >= timeout_ms

    def _hear_of_live(self, device: Device) -> None:
        """A live session from before there was an inactivity timeout counts as heard now."""
        live = device.live
        if live is not None and live.last_active_ms is None and self.rules.inactivity_timeout_ms is not None:
            live.last_active_ms, live.heard_ms = live.started_ms, self._now_ms

    def _start_at_last(self, device: Device, session: Session, start: Start) -> None:
        """S7: the Start of a session that an Activity began."""
        session.is_implied = False
        said, here, there = session.newest_change, session.sort_key(), (start.at_ms, start.session_id)
        others = [other for other in device.sessions() if other is not session]
        moves = there < here and not any(there < other.sort_key() < here for other in others)
        if moves:
            session.started_ms = start.at_ms
            account_id, platform = first_known([start.account_id, said.account_id]), start.platform
            labels = known_labels(start.labels, said.labels)
        else:
            account_id, platform = first_known([said.account_id, start.account_id]), said.platform
            labels = known_labels(said.labels, start.labels)
        session.newest_change = said._replace(
            account_id=account_id, platform=platform, labels=labels, started_ms=session.started_ms
        )
        self._emit(device, as_started(session.newest_change))
        if said.end_reason is not None:
            assert said.ended_ms is not None
            self._end(device, session, said.end_reason, said.ended_ms)
        if moves:
            for before in [other for other in others if other.sort_key() < there][-1:]:
                self._cut(device, before, start.at_ms)

    def _activity(
        self, device: Device, activity: Activity, known: list[Session], pending: list[PendingEndModel]
    ) -> str:
        """A1 to A5: apply an Activity, and return what it is counted as."""
        timeout_ms, at_ms = self.rules.inactivity_timeout_ms, activity.at_ms
        assert timeout_ms is not None
        for session in known:
            if session is device.live and at_ms > (session.last_active_ms or 0):  # A1
                session.last_active_ms, session.heard_ms = at_ms, self._now_ms
                return "activities"
            ended = session.newest_change
            is_active_since = ended.end_reason is EndReason.INACTIVE and at_ms > (ended.ended_ms or 0)
            if is_active_since and session is device.sessions()[-1]:  # A2
                self._resume(device, session, at_ms)
                return "activities"
        if known or pending:  # A3
            return "duplicate_activity"
        is_old = activity.ingested_ms - at_ms > timeout_ms
        in_the_way = [
            other
            for other in device.sessions()
            if other.sort_key() > (at_ms, activity.session_id)
            or (other.newest_change.ended_ms is not None and other.newest_change.ended_ms > at_ms)
        ]
        if is_old or in_the_way or (device.live is not None and not self._was_silent_until(device.live, at_ms)):  # A5
            return "late_activity"
        fields = activity.session_id, at_ms, activity.platform, activity.ingested_ms, activity.account_id
        self._start(device, Start(*fields, activity.labels), [])  # A4
        assert device.live is not None
        device.live.is_implied = True
        self.counters["implied_starts"] += 1
        return "activities"

    def _resume(self, device: Device, session: Session, at_ms: int) -> None:
        device.closed = [other for other in device.closed if other is not session]
        device.live = session
        session.newest_change = as_started(session.newest_change)
        session.last_active_ms, session.heard_ms, session.resumed_ms = at_ms, self._now_ms, self._now_ms
        resumed = session.newest_change._replace(kind=ChangeKind.RESUMED, duration_ms=None, revision=session.said)
        session.said += 1
        self._emit(device, resumed)

    def _end_reported(self, device: Device, session: Session, end: End) -> None:
        account_id = first_known([session.newest_change.account_id, end.account_id])
        labels = known_labels(session.newest_change.labels, end.labels)
        session.newest_change = session.newest_change._replace(account_id=account_id, foreground_s=end.foreground_s)
        session.newest_change = session.newest_change._replace(labels=labels)
        self._end(device, session, EndReason.REPORTED, end.at_ms)

    def _end(self, device: Device, session: Session, reason: EndReason, at_ms: int) -> None:
        later_ms = [other.started_ms for other in device.sessions() if other.sort_key() > session.sort_key()]
        ended_ms = max(session.started_ms, min([at_ms, *later_ms]))
        ended = session.newest_change._replace(kind=ChangeKind.ENDED, end_reason=reason, ended_ms=ended_ms)
        ended = ended._replace(revision=session.said)
        session.said += 1
        if session.newest_change.kind is not ChangeKind.ENDED:
            session.deadline_ms = self._now_ms + self.rules.late_retention_ms
            device.closed.append(session)
            device.live = None if device.live is session else device.live
        session.newest_change = ended._replace(duration_ms=ended_ms - session.started_ms)
        self._emit(device, session.newest_change)

    def _fire(self, device: Device, key: str) -> None:
        now_ms, live = self._now_ms, device.live
        device.closed = [old for old in device.closed if old.deadline_ms > now_ms]  # T3, before T1 closes one
        for entry in [entry for entry in device.pending_ends if entry.deadline_ms <= now_ms]:  # T4
            self._orphan(device, entry)
        silence_ms = self.rules.inactivity_timeout_ms
        if live is not None and silence_ms is not None and now_ms - live.heard_ms >= silence_ms:  # T0
            assert live.last_active_ms is not None
            self._end(device, live, EndReason.INACTIVE, live.last_active_ms)
        elif live is not None and silence_ms is None and now_ms - live.opened_ms >= self.rules.session_timeout_ms:  # T1
            self._end(device, live, EndReason.TIMED_OUT, live.started_ms + self.rules.session_timeout_ms)
        elif live is not None:
            newest, opened = self._newest_instant(key, now_ms), self._newest_instant(key, live.opened_ms)
            last = opened if live.last_beat is None else live.last_beat
            if live.resumed_ms is not None:
                last = max(last, self._newest_instant(key, live.resumed_ms))
            if newest > last:  # T2
                live.last_beat = newest
                beat = live.newest_change._replace(kind=ChangeKind.HEARTBEAT, due_ms=self._instant_ms(key, newest))
                beat = beat._replace(beat=newest - opened, missed_beats=newest - last - 1, labels=())
                beat = beat._replace(last_active_ms=None if silence_ms is None else live.last_active_ms)
                self._emit(device, beat._replace(duration_ms=now_ms - live.opened_ms))

    def _needed_ms(self, key: str) -> int | None:
        """The instant for which the entries of a key need a timer."""
        devices = self.remembered.get(key, {}).values()
        if not any(device.live or device.closed or device.pending_ends for device in devices):
            return None
        instant = self._newest_instant(key, self._now_ms) + 1
        if not self.is_grouped and not any(device.live for device in devices):
            deadlines_ms = [session.deadline_ms for device in devices for session in device.closed]
            deadlines_ms += [entry.deadline_ms for device in devices for entry in device.pending_ends]
            while self._instant_ms(key, instant) < min(deadlines_ms):
                instant += 1
        return self._instant_ms(key, instant)

    def _instant_ms(self, key: str, k: int) -> int:
        return k * self.rules.heartbeat_ms + crc32(key.encode("utf-8")) % self.rules.heartbeat_ms

    def _newest_instant(self, key: str, at_ms: int) -> int:
        return (at_ms - self._instant_ms(key, 0)) // self.rules.heartbeat_ms

    def _orphan(self, device: Device, entry: PendingEndModel) -> None:
        device.pending_ends.remove(entry)
        end = entry.end
        orphan = Change(end.session_id, end.account_id, end.platform, ChangeKind.ENDED, self._now_ms, started_ms=None)
        orphan = orphan._replace(end_reason=EndReason.ORPHANED, ended_ms=end.at_ms, foreground_s=end.foreground_s)
        self._emit(device, orphan._replace(labels=end.labels))

    def _emit(self, device: Device, change: Change) -> None:
        event_ms, ingested_ms = (self._cause.at_ms, self._cause.ingested_ms) if self._cause else (None, None)
        change = change._replace(processed_ms=self._now_ms, event_ms=event_ms, ingested_ms=ingested_ms)
        self._changes.append((device.device_id, change))
