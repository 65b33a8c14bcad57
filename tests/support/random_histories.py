"""Random dirty histories: few sessions and few instants, so that events collide often.

Every run plays the same examples. `HISTORIES=20000 pytest tests/core` plays 20,000 new ones per law.
"""

import os
from dataclasses import dataclass, replace
from functools import partial

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from sessionization.core.events import Activity, End, Event, Platform, Start
from sessionization.core.session_state import Rules
from tests.support.core_driver import Driver
from tests.support.reference_sessions import SessionRow, session_rows

DEVICES = ("a", "b", "c")
ACCOUNTS = (None, "anna", "Ben", "ça")
FOREGROUNDS_S = (None, 0, 7)
LABELS = ((None, None), ("chess", "DE"), ("chess", None), (None, "AT"))
"""Values of two columns."""

Row = tuple[str, Event]


@dataclass(frozen=True, slots=True)
class Batch:
    now_ms: int
    rows: tuple[Row, ...]


History = tuple[Batch, ...]


def law_settings(examples: int) -> settings:
    """Returns the settings of a law: `examples` fixed histories, or as many new ones as `HISTORIES` requests."""
    requested = os.environ.get("HISTORIES")
    return settings(
        max_examples=int(requested) if requested else examples,
        derandomize=requested is None,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def _row(kinds: tuple[type[Event], ...], code: int) -> Row:
    """Decodes a row from a number: drawing a number is a hundred times cheaper than drawing each field."""
    code, device = divmod(code, len(DEVICES))
    code, session_id = divmod(code, 4)
    code, kind = divmod(code, len(kinds))
    code, at_ms = divmod(code, 36)
    code, account = divmod(code, len(ACCOUNTS))
    code, platform = divmod(code, 2)
    code, foreground = divmod(code, len(FOREGROUNDS_S))
    lag_ms, labels = divmod(code, len(LABELS))
    common = (session_id, at_ms - 4, tuple(Platform)[platform], at_ms + lag_ms, ACCOUNTS[account])
    if kinds[kind] is End:
        return DEVICES[device], End(*common, FOREGROUNDS_S[foreground], LABELS[labels])
    event = (Start if kinds[kind] is Start else Activity)(*common, LABELS[labels])
    if isinstance(event, Activity) and foreground == 0:
        event = replace(event, ingested_ms=event.at_ms + 30)
    return DEVICES[device], event


def _rows(*kinds: type[Event]) -> st.SearchStrategy[Row]:
    codes = len(DEVICES) * 4 * len(kinds) * 36 * len(ACCOUNTS) * 2 * len(FOREGROUNDS_S) * len(LABELS) * 2
    return st.integers(0, codes - 1).map(partial(_row, kinds))


rows = _rows(Start, End)
rows_with_activity = _rows(Start, End, Activity, Activity)
gaps_ms = st.sampled_from((1, 1, 2, 3, 5, 8, 10, 13, 40, 200, 0))

small_rules = st.builds(
    Rules,
    heartbeat_ms=st.sampled_from((10, 7, 1)),
    session_timeout_ms=st.sampled_from((60, 25, 12, 1)),
    late_retention_ms=st.sampled_from((30, 9, 1, 0)),
    max_sessions_per_device=st.sampled_from((64, 3, 2, 1)),
)
rules_that_forget_nothing = st.builds(
    Rules,
    heartbeat_ms=st.sampled_from((10, 7, 1)),
    session_timeout_ms=st.sampled_from((25, 12, 10**9)),
    late_retention_ms=st.just(10**9),
    max_sessions_per_device=st.just(1_000),
)


any_rules = st.one_of(small_rules, rules_that_forget_nothing)


@st.composite
def histories(
    draw: st.DrawFn, max_batches: int = 14, max_rows: int = 8, any_row: st.SearchStrategy[Row] = rows
) -> History:
    """Draws micro-batches with any rows, some empty, some after an outage; `now_ms` never goes back."""
    now_ms, batches = 0, []
    for gap_ms, batch_rows in draw(
        st.lists(st.tuples(gaps_ms, st.lists(any_row, max_size=max_rows)), min_size=1, max_size=max_batches)
    ):
        now_ms += gap_ms
        batches.append(Batch(now_ms, tuple(batch_rows)))
    return tuple(batches)


def with_inactivity_timeout(rules: st.SearchStrategy[Rules]) -> st.SearchStrategy[Rules]:
    def set_to(silence_ms: int, rules: Rules) -> Rules:
        return replace(rules, inactivity_timeout_ms=silence_ms)

    return st.builds(set_to, st.sampled_from((8, 20, 45, 1)), rules)


def cases(
    rules: st.SearchStrategy[Rules], max_batches: int = 14, max_rows: int = 8
) -> st.SearchStrategy[tuple[Rules, History]]:
    """Draws rules with a history: half of them with `inactivity_timeout` and Activities."""
    return st.one_of(
        st.tuples(rules, histories(max_batches, max_rows)),
        st.tuples(with_inactivity_timeout(rules), histories(max_batches, max_rows, rows_with_activity)),
    )


@st.composite
def agreeing_rows(draw: st.DrawFn) -> list[Row]:
    """Draws Starts and Ends of a few sessions, some missing, some repeated; no two of them disagree about a session.

    Among them are Activities after the Starts.
    """
    agreeing: list[Row] = []
    for device_id, event in draw(
        st.lists(rows, max_size=10, unique_by=lambda row: (row[0], row[1].session_id, type(row[1])))
    ):
        later = replace(event, ingested_ms=event.ingested_ms + 1)
        agreeing += [(device_id, again) for again in (event, later)[: draw(st.sampled_from((1, 1, 2)))]]
        if isinstance(event, Start):
            for after_ms in draw(st.lists(st.integers(0, 30), max_size=2)):
                at_ms = event.at_ms + after_ms
                agreeing.append(
                    (device_id, Activity(event.session_id, at_ms, event.platform, at_ms, "Zoe", (None, "FR")))
                )
    return agreeing


@st.composite
def arrivals(draw: st.DrawFn, all_rows: list[Row]) -> History:
    """Draws the same rows in another order and in other micro-batches, an Activity not before its session's Start."""
    now_ms, batches = 0, []
    waiting = _activities_after_starts(draw(st.permutations(all_rows)))
    while waiting:
        now_ms += draw(gaps_ms)
        size = draw(st.integers(1, 4))
        batches.append(Batch(now_ms, tuple(waiting[:size])))
        waiting = waiting[size:]
    return tuple(batches)


def _activities_after_starts(ordered: list[Row]) -> list[Row]:
    started: set[tuple[str, int]] = set()
    in_time: list[Row] = []
    too_early: list[Row] = []
    for device_id, event in ordered:
        if isinstance(event, Start):
            started.add((device_id, event.session_id))
        is_early = isinstance(event, Activity) and (device_id, event.session_id) not in started
        (too_early if is_early else in_time).append((device_id, event))
    return in_time + too_early


def merge_equal_clocks(history: History) -> History:
    """Merges micro-batches with the same clock, since the clocks of a stream rise."""
    batches: list[Batch] = []
    for batch in history:
        if batches and batches[-1].now_ms == batch.now_ms:
            batches[-1] = Batch(batch.now_ms, batches[-1].rows + batch.rows)
        else:
            batches.append(batch)
    return tuple(batches)


def streamed_rows(rules: Rules, history: History) -> dict[tuple[str, int], SessionRow]:
    driver = Driver(rules)
    changes = [change for batch in history for change in driver.micro_batch(batch.now_ms, batch.rows)]
    return session_rows(changes)
