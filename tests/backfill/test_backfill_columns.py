"""The columnar replay gives the same rows as a history that is played event by event."""

import dataclasses
import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import given

from sessionization.backfill.columns import ROW_SCHEMA, ArrowReplay
from sessionization.backfill.micro_batch_clock import MicroBatchClock
from sessionization.backfill.replay import FoldedSession
from sessionization.core.events import End, Event, Platform, Start
from sessionization.core.session_state import Rules
from tests.backfill.clocks import build_clock
from tests.support.core_driver import Driver
from tests.support.random_histories import Batch, History, histories, law_settings
from tests.support.reference import SessionRow, session_rows
from tests.support.replayed import any_rules, merge_equal_clocks, session_row

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
RULES = Rules()

EVENTS = pa.schema(
    [
        ("device_id", pa.string()), ("session_id", pa.int64()), ("is_start", pa.bool_()),
        ("event_ms", pa.int64()), ("foreground_s", pa.int64()), ("account_id", pa.string()),
        ("platform", pa.string()), ("ingested_ms", pa.int64()),
    ]
)  # fmt: skip


def event_table(events: list[tuple[str, Event]]) -> pa.Table:
    """Returns the events sorted by device and ingest time, as the job sorts them."""
    rows = sorted(
        events,
        key=lambda row: (row[0], row[1].ingested_ms, row[1].at_ms, isinstance(row[1], Start), row[1].session_id),
    )
    records = [
        (
            device_id, event.session_id, isinstance(event, Start), event.at_ms, getattr(event, "foreground_s", None),
            event.account_id, event.platform.value, event.ingested_ms,
        )
        for device_id, event in rows
    ]  # fmt: skip
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(zip(*records, strict=True), EVENTS, strict=True)],
        schema=EVENTS,
    )


def rows_by_session(table: pa.Table) -> dict[tuple[str, int], SessionRow]:
    rows = {}
    for device_id, session_id, started_ms, *rest in zip(*(column.to_pylist() for column in table.columns), strict=True):
        start, end, updated_ms = tuple(rest[:3]), tuple(rest[3:10]), rest[10]
        folded = FoldedSession(
            started_ms, start if start[0] is not None else None, end if end[0] is not None else None, updated_ms
        )
        assert (device_id, session_id) not in rows, "one row a session"
        rows[device_id, session_id] = session_row(folded)
    return rows


def ingested_with_batch(history: History) -> History:
    """Returns the history with the ingest time of each event set to the clock of its micro-batch."""
    return tuple(
        Batch(
            batch.now_ms,
            tuple((device_id, dataclasses.replace(event, ingested_ms=batch.now_ms)) for device_id, event in batch.rows),
        )
        for batch in history
    )


def streamed_rows(rules: Rules, history: History) -> dict[tuple[str, int], SessionRow]:
    driver = Driver(rules)
    return session_rows([change for batch in history for change in driver.micro_batch(batch.now_ms, batch.rows)])


def check_replay(rules: Rules, history: History, *, in_batches_of: int = 7) -> ArrowReplay:
    clocks = [batch.now_ms for batch in history]
    clock = build_clock((clocks, clocks, clocks), (clocks, clocks), until_ms=clocks[-1])
    events = event_table([row for batch in history for row in batch.rows])
    arrow_replay = ArrowReplay(rules, clock)
    rows = pa.Table.from_batches(arrow_replay(events.to_batches(max_chunksize=in_batches_of)), ROW_SCHEMA)
    assert rows_by_session(rows) == streamed_rows(rules, history)
    return arrow_replay


@law_settings(300)
@given(any_rules, histories(max_batches=30, max_rows=4).filter(lambda history: any(batch.rows for batch in history)))
def test_a_replay_of_a_dirty_history_gives_the_streams_rows(rules: Rules, history: History) -> None:
    check_replay(rules, ingested_with_batch(merge_equal_clocks(history)))


def simulated_evenings(seed: int, dirt: float) -> History:
    """Draws sessions of 40 devices over two days, with dirt, in micro-batches of 10 s with an outage of an hour."""
    rng = random.Random(seed)
    moments: list[tuple[int, str, Event]] = []
    for number in range(40):
        at_ms, device_id = rng.randrange(6 * HOUR), f"d{number}"
        for session_id in range(rng.randrange(1, 12)):
            length_ms = rng.randrange(10 * SECOND, 28 * MINUTE)
            platform, account_id = rng.choice(list(Platform)), rng.choice([None, "ann", "bob"])
            start = Start(session_id, at_ms, platform, 0, account_id)
            end = End(session_id, at_ms + length_ms, platform, 0, rng.choice([None, account_id]), rng.choice([None, 5]))
            for event in (start, end):
                if rng.random() < dirt / 2:
                    continue
                for _ in range(1 + (rng.random() < dirt)):
                    late_ms = rng.randrange(2 * HOUR) if rng.random() < dirt else rng.randrange(3 * SECOND)
                    moments.append((event.at_ms + late_ms, device_id, event))
            at_ms += length_ms + rng.choice([0, 5 * SECOND, 9 * MINUTE, 50 * MINUTE, 5 * HOUR])
    rows_by_clock: defaultdict[int, list[tuple[str, Event]]] = defaultdict(list)
    for arrives_ms, device_id, event in moments:
        now_ms = -(-arrives_ms // (10 * SECOND)) * 10 * SECOND
        if 3 * HOUR < now_ms < 4 * HOUR:
            now_ms = 4 * HOUR
        rows_by_clock[now_ms].append((device_id, event))
    last_ms = max(rows_by_clock) + 2 * HOUR
    clocks = [ms for ms in range(0, last_ms, 10 * SECOND) if not 3 * HOUR < ms < 4 * HOUR]
    return ingested_with_batch(tuple(Batch(ms, tuple(rows_by_clock.get(ms, ()))) for ms in clocks))


@pytest.mark.parametrize(("seed", "dirt"), [(1, 0.0), (2, 0.1), (3, 0.5)])
def test_a_replay_of_simulated_evenings_gives_the_streams_rows(seed: int, dirt: float) -> None:
    arrow_replay = check_replay(RULES, simulated_evenings(seed, dirt), in_batches_of=50)
    assert arrow_replay.from_ms == 0


@pytest.mark.parametrize("gap_ms", [5 * MINUTE, 5 * HOUR])
def test_a_session_that_is_repeated_makes_one_row(gap_ms: int) -> None:
    moments: list[tuple[int, Event]] = []
    for at_ms in (MINUTE, MINUTE + gap_ms):
        moments.append((at_ms, Start(1, at_ms, Platform.PC, at_ms)))
        moments.append((at_ms + MINUTE, End(1, at_ms + MINUTE, Platform.PC, at_ms + MINUTE)))
    check_replay(RULES, tuple(Batch(now_ms, (("d", event),)) for now_ms, event in moments))


def test_plain_histories_are_not_replayed_event_by_event(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed: Counter[str] = Counter()
    original = ArrowReplay._replay_all

    def counted(self: ArrowReplay, events: pa.Table, now_ms: object) -> pa.Table:
        replayed["events"] += events.num_rows
        return original(self, events, now_ms)

    monkeypatch.setattr(ArrowReplay, "_replay_all", counted)
    history = simulated_evenings(1, 0.0)
    check_replay(RULES, history, in_batches_of=1_000)
    # An outage makes some histories not plain, and so do two sessions of a device in one micro-batch.
    assert 0 < replayed["events"] < sum(len(batch.rows) for batch in history) / 10


def test_sessions_that_last_changed_before_from_ms_are_left_out() -> None:
    clock = MicroBatchClock(until_ms=10 * HOUR)
    moments: list[tuple[str, Event]] = [
        ("d", Start(1, 0, Platform.PC, 0)), ("d", End(1, MINUTE, Platform.PC, MINUTE)),
        ("d", Start(2, HOUR, Platform.PC, HOUR)), ("d", End(2, HOUR + MINUTE, Platform.PC, HOUR + MINUTE)),
    ]  # fmt: skip
    rows = ArrowReplay(RULES, clock, from_ms=HOUR).rows(event_table(moments))
    assert rows["session_id"].to_pylist() == [2]
