"""Histories for a replay."""

from hypothesis import strategies as st

from tests.support.random_histories import Batch, History, rules_that_forget_nothing, small_rules

any_rules = st.one_of(small_rules, rules_that_forget_nothing)


def merge_equal_clocks(history: History) -> History:
    """Merges micro-batches with the same clock, since the clocks of a stream rise."""
    batches: list[Batch] = []
    for batch in history:
        if batches and batches[-1].now_ms == batch.now_ms:
            batches[-1] = Batch(batch.now_ms, batches[-1].rows + batch.rows)
        else:
            batches.append(batch)
    return tuple(batches)
