"""A run's totals and what a person is told of them."""

from sessionization.job.summary import RunningTotals, progress_line, summary_lines
from tests.support.monitored import query_progress, sessionize_progress


def test_the_micro_batches_of_a_run_add_up() -> None:
    run = RunningTotals()
    for progress in (sessionize_progress(0), sessionize_progress(1), query_progress("archive", quarantined=2)):
        run.add(progress)
    totals, last = run.snapshot()
    assert progress_line(totals, last).startswith(
        "14 events in, 6 started, 10 heartbeats, 8 ended, 2 repeated, 2 quarantined, micro-batch 1 took 500 ms, "
    )
    assert summary_lines(61.2, totals, None) == [
        "ran 61 s",
        "archived         8 messages, of which quarantined 2",
        "sessionized      14 events, of which repeated 2 (2 Starts, 0 Ends)",
        "changes out      6 started, 10 heartbeats, 8 ended (corrections included)",
        "live now         -",
    ]
