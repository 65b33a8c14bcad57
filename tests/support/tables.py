"""The tables of a job, and their differences from the oracle's."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc

from tests.support.checkpoints import batches_of
from tests.support.delta import Stored, read_table
from tests.support.oracle import Counted, Measured, Oracle, Rows
from tests.support.oracle_columns import COLUMNS

Tables = dict[str, Stored]
"""The rows of each table; timestamps as milliseconds in columns that end in `_ms`, dates as text."""

_SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
_EXACT_UP_TO = 5_000
_NAMED_AT_MOST = 3


def read_tables(warehouse: Path) -> Tables:
    """Read all tables, without the internal columns."""
    return {name: read_table(warehouse / name) for name in COLUMNS}


def split_progress(tables: Tables, checkpoints: Path) -> tuple[Tables, Stored]:
    """Tables after a warm start with only the rows of `stream_progress` since then, and its rows from before.

    The new checkpoint numbers micro-batches from 0.
    """
    created_ms = json.loads((checkpoints / "layout.json").read_text(encoding="utf-8"))["created_ms"]
    progress = tables["stream_progress"].content
    is_new = pc.greater_equal(progress["processed_ms"], created_ms)
    new_rows, former_rows = Stored(progress.filter(is_new)), Stored(progress.filter(pc.invert(is_new)))
    return tables | {"stream_progress": new_rows}, former_rows


def differences(oracle: Oracle, actual: Tables, checkpoints: Path) -> list[str]:
    """All missing, surplus and differing rows of the tables; empty if they equal the oracle's."""
    return [line for name in COLUMNS for line in differences_in(name, oracle, actual, checkpoints)]


def differences_in(name: str, oracle: Oracle, actual: Tables, checkpoints: Path) -> list[str]:
    """All missing, surplus and differing rows of one table."""
    rows = actual[name].of(*oracle.columns_of(name))
    if name == "sessions":
        processed_ms = {clock_ms for (clock_ms,) in actual["session_changes"].of("processed_ms")}
        return _compared(name, Rows(certain=oracle.sessions(processed_ms)), oracle.counted(rows))
    if name != "stream_progress":
        return _compared(name, oracle.tables[name], oracle.counted(rows))
    return [
        *_compared(name, oracle.tables[name], oracle.counted(row for row in rows if row[0] != "rollup")),
        *_rollup_differences(oracle, actual, checkpoints),
        *_measured_differences(oracle, actual, checkpoints),
    ]


def _compared(table: str, oracle_rows: Rows, found: Counted) -> list[str]:
    # A micro-batch that is not committed has written either all of its rows into a table, or none.
    expected = oracle_rows.certain + oracle_rows.uncommitted if oracle_rows.uncommitted & found else oracle_rows.certain
    return [
        f"{table}: {count}x {verdict} {row}"
        for verdict, rows in (("missing", expected - found), ("too much", found - expected))
        for row, count in list(rows.items())[:_NAMED_AT_MOST]
    ]


def _rollup_differences(oracle: Oracle, actual: Tables, checkpoints: Path) -> list[str]:
    """Check that rollup has one row per micro-batch, and has read every change except heartbeats once.

    After a warm start it reads the changes since then, and may read those of the last micro-batch before it again.
    """
    rows = [row for row in actual["stream_progress"] if row["query"] == "rollup"]
    batches = batches_of(checkpoints / "rollup")
    counts = Counter(row["batch_id"] for row in rows)
    known = {batch.batch_id: batch for batch in batches}
    found = [
        f"stream_progress: {counts[batch_id]} rows of rollup {batch_id}"
        for batch_id in counts.keys() | known.keys()
        if counts[batch_id] != 1 and (counts[batch_id] or known[batch_id].is_committed)
    ]
    found += [f"stream_progress: rollup {batch_id} is unknown" for batch_id in counts.keys() - known.keys()]
    read = sum(row["rows_in"] for row in rows)
    written_ms = [
        clock_ms for change, clock_ms in actual["session_changes"].of("change", "processed_ms") if change != "heartbeat"
    ]
    written = sum(clock_ms > oracle.taken_over_ms for clock_ms in written_ms)
    if read not in {written, written + written_ms.count(oracle.taken_over_ms)}:
        found.append(f"stream_progress: rollup has read {read} changes of {written}")
    others = [name for name in oracle.columns_of("stream_progress") if name not in {"query", "batch_id", "rows_in"}]
    found += [f"stream_progress: {name} in {row}" for row in rows for name in others if row[name] is not None]
    return found


def _measured_differences(oracle: Oracle, actual: Tables, checkpoints: Path) -> list[str]:
    """Check the times and state sizes in `stream_progress` against the clocks, the input and the changes."""
    clocks_ms = {
        (query, batch.batch_id): batch.clock_ms
        for query in ("sessionize", "archive", "rollup")
        for batch in batches_of(checkpoints / query)
    }
    found = []
    for row in actual["stream_progress"]:
        name, processed_ms = (row["query"], row["batch_id"]), row["processed_ms"]
        clock_ms = clocks_ms.get(name, math.inf)
        measured = oracle.measured.get(name, Measured())
        if processed_ms < clock_ms or (measured.has_clock and processed_ms != clock_ms):
            found.append(f"stream_progress: {name} processed at {processed_ms}, its clock is {clock_ms}")
        if row["batch_ms"] < 0:
            found.append(f"stream_progress: {name} took {row['batch_ms']} ms")
        # The engine reports the state size after each micro-batch, and has reported none right after a start.
        if row["state_rows"] is not None and row["state_rows"] not in measured.state_rows_before:
            found.append(f"stream_progress: {row['state_rows']} rows in state before {name}")
        # With groups a row is no single entry, and each group counts its entries only now and then.
        if oracle.groups is None and row["state_entries"] != row["state_rows"]:
            found.append(f"stream_progress: {row['state_entries']} entries in {row['state_rows']} rows before {name}")
        committed_ms = processed_ms + row["batch_ms"]
        for delay, since_ms in (("latency", measured.ingested_ms), ("lateness", measured.due_ms)):
            delays = {share: row[f"{delay}_{share}_ms"] for share in _SHARES}
            # The changes that a micro-batch of rollup has read are unknown here.
            is_open = row["query"] == "rollup" and delay == "latency" and None not in delays.values()
            if not (is_open and delays["p50"] <= delays["p99"] <= delays["max"]) and not _is_percentiles(
                delays, since_ms, committed_ms
            ):
                found.append(f"stream_progress: {delay} of {name} is {delays}")
    return found


def _is_percentiles(delays: dict[str, int | None], since_ms: Sequence[int], committed_ms: float) -> bool:
    """Whether each share is the delay of the row at its place; with very many rows Spark may be some places off."""
    if not since_ms:
        return set(delays.values()) == {None}
    ordered_ms = sorted(since_ms)
    leeway = len(ordered_ms) // _EXACT_UP_TO

    def delay_ms(place: int) -> float:
        return max(0, committed_ms - ordered_ms[min(max(place, 1), len(ordered_ms)) - 1])

    for name, share in _SHARES.items():
        place = math.ceil((1 - share) * len(ordered_ms))
        ms = delays[name]
        if ms is None or not delay_ms(place + leeway) <= ms <= delay_ms(place - leeway):
            return False
    return delays["max"] == delay_ms(1)
