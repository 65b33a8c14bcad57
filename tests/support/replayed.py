"""Histories for a replay, and the rows that it folds."""

from hypothesis import strategies as st

from sessionization.backfill.replay import FoldedSession
from tests.support.random_histories import Batch, History, rules_that_forget_nothing, small_rules
from tests.support.reference import SessionRow

any_rules = st.one_of(small_rules, rules_that_forget_nothing)


def session_row(folded: FoldedSession) -> SessionRow:
    """Derives a row's columns from the four folded ones, as `rollup` does."""
    parts = [part for part in (folded.first_start, folded.shown_end and folded.shown_end[4::2]) if part]
    account_id = next((part[-2] for part in parts if part[-2] is not None), None)
    platform = parts[0][-1]
    if folded.shown_end is None:
        return SessionRow(account_id, platform, "live", folded.started_ms, None, None, None, None, 0, folded.updated_ms)
    _, revision, ended_ms, foreground_s, _, reason, _ = folded.shown_end
    if folded.started_ms is not None:
        ended_ms = max(ended_ms, folded.started_ms)
        reason = "reported" if reason == "orphaned" else reason
    duration_ms = None if folded.started_ms is None else ended_ms - folded.started_ms
    return SessionRow(
        account_id, platform, "ended", folded.started_ms, ended_ms, duration_ms, foreground_s, reason, revision,
        folded.updated_ms,
    )  # fmt: skip


def merge_equal_clocks(history: History) -> History:
    """Merges micro-batches with the same clock, since the clocks of a stream rise."""
    batches: list[Batch] = []
    for batch in history:
        if batches and batches[-1].now_ms == batch.now_ms:
            batches[-1] = Batch(batch.now_ms, batches[-1].rows + batch.rows)
        else:
            batches.append(batch)
    return tuple(batches)
