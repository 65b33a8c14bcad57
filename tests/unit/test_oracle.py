"""The oracle of the end-to-end tests takes short cuts: it must say what the reference says without them."""

import random
from functools import partial

import pyarrow as pa
import pytest

from sessionization.core.events import End, Platform, Start
from sessionization.core.reference import Reference
from sessionization.core.state import Rules
from tests.e2e.delta import Stored
from tests.e2e.oracle import QuickReference, group_of

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=5_000, late_retention_ms=2_000, max_sessions_per_device=4)
HISTORIES = 100
BATCHES = 40


@pytest.mark.parametrize("groups", [None, 1, 2])
def test_the_quick_reference_is_the_reference(groups: int | None) -> None:
    for seed in range(HISTORIES):
        rng = random.Random(seed)
        quick = QuickReference(RULES, groups)
        plain = Reference(RULES) if groups is None else Reference(RULES, partial(group_of, groups))
        now_ms = 1_000_000
        for _ in range(BATCHES):
            now_ms += rng.choice([1, 300, 1_000, 2_500, 9_000, -1_500 if seed % 2 else 1])
            events = []
            for _ in range(rng.randrange(5)):
                at_ms = now_ms - rng.randrange(0, 4_000, 500)
                kind = rng.choice([Start, End])
                events.append((f"d{rng.randrange(3)}", kind(rng.randrange(6), at_ms, Platform.PC, now_ms)))
            said = quick.micro_batch(now_ms, events)
            assert sorted(said, key=repr) == sorted(plain.micro_batch(now_ms, events), key=repr)
            assert (quick.timers, quick.remembered) == (plain.timers, plain.remembered)


def test_a_table_without_files_has_no_rows() -> None:
    assert list(Stored(pa.table({})).of("device_id")) == []
