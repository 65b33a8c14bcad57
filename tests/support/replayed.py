"""Histories for a replay, and the rows that the stream makes of them."""

from hypothesis import strategies as st

from sessionization.core.session_state import Rules
from tests.support.core_driver import Driver
from tests.support.random_histories import Batch, History, rules_that_forget_nothing, small_rules
from tests.support.reference import SessionRow, session_rows

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


def streamed_rows(rules: Rules, history: History) -> dict[tuple[str, int], SessionRow]:
    driver = Driver(rules)
    changes = [change for batch in history for change in driver.micro_batch(batch.now_ms, batch.rows)]
    return session_rows(changes)
