"""Pictures of the operator's state: its spread over partitions and devices, its growth, and its timers."""

from matplotlib.figure import Figure
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.notebook import chart_style, histogram
from sessionization.ops.state_reader import StateReader

_MIB = 1024 * 1024
_OVERDUE, _AHEAD = "overdue", "ahead"
_KINDS = (("live", chart_style.SKY), ("closed", chart_style.GREEN), ("pending_ends", chart_style.PURPLE))


def by_partition(state: StateReader) -> Figure:
    """Draw the entries of each state partition by kind; bars of equal length mean no skew."""
    rows = state.by_partition().collect()
    figure, (axes,) = chart_style.new_figure(height=2.8)
    entries = [row.live + row.closed + row.pending_ends for row in rows]
    mean = sum(entries) / len(entries) if entries else 0
    skew = f", the fullest has {max(entries) / mean:.1f} times the mean" if mean else ""
    chart_style.set_titles(axes, f"State by partition{skew}", x="state partition", y="entries")
    if not mean:
        chart_style.write_no_rows(axes, "the state is empty")
        return figure
    names, bottom = [str(row.partition) for row in rows], [0] * len(rows)
    for name, colour in _KINDS:
        values = [row[name] for row in rows]
        axes.bar(names, values, bottom=bottom, color=colour, label=name.replace("_", " "))
        bottom = [below + value for below, value in zip(bottom, values, strict=True)]
    chart_style.whole_numbers(axes, y=True)
    axes.legend(frameon=False, ncols=3)
    return figure


def by_device(state: StateReader) -> Figure:
    """Draw the number of devices per number of entries; a long tail means that a device sends too much."""
    counts = state.sessions().groupBy("device_id").count().groupBy("count").agg(F.count("*").alias("devices"))
    rows = sorted(counts.collect(), key=lambda row: row["count"])
    figure, (axes,) = chart_style.new_figure(height=2.8)
    chart_style.set_titles(axes, "Entries of a device", x="remembered sessions and Ends of a device", y="devices")
    if not rows:
        chart_style.write_no_rows(axes, "the state is empty")
        return figure
    axes.bar([row["count"] for row in rows], [row.devices for row in rows], color=chart_style.BLUE)
    chart_style.whole_numbers(axes, x=True, y=True)
    return figure


def growth(spark: SparkSession) -> Figure:
    """Draw rows and memory of the state over time, from the engine's reports in `stream_progress`."""
    rows = spark.sql(
        """
        SELECT unix_millis(processed_at) AS at_ms, state_rows, state_bytes FROM stream_progress
        WHERE query = 'sessionize' AND state_rows IS NOT NULL ORDER BY processed_at DESC LIMIT 2000
        """
    ).collect()[::-1]
    figure, (above, below) = chart_style.new_figure(2, 2.2, share_x=True)
    chart_style.set_titles(above, "Rows in state", y="rows")
    chart_style.set_titles(below, "Memory of the state", x="time (UTC)", y="MiB")
    if not rows:
        for axes in (above, below):
            chart_style.write_no_rows(axes)
        return figure
    times = chart_style.to_datetimes([row.at_ms for row in rows])
    above.plot(times, [row.state_rows for row in rows], ".-", ms=3, color=chart_style.BLUE)
    below.plot(times, [row.state_bytes / _MIB for row in rows], ".-", ms=3, color=chart_style.ORANGE)
    chart_style.whole_numbers(above, y=True)
    for axes in (above, below):
        chart_style.start_at_zero(axes)
    chart_style.time_axis(below)
    return figure


def timers(state: StateReader, now_ms: int) -> Figure:
    """Draw when timers are due, relative to `now_ms`; an even spread means an even flow of heartbeats."""
    due_s = (F.unix_millis("due_at") - F.lit(now_ms)) / 1_000
    kind = F.when(due_s <= 0, _OVERDUE).otherwise(_AHEAD)
    due = histogram.histogram(state.timers().select(due_s.alias("value"), kind.alias("kind")))
    overdue = sum(due.counts.get(_OVERDUE, ()))
    figure, (axes,) = chart_style.new_figure(height=2.6)
    title = f"Timers ({due.total:,}, of which {overdue:,} overdue)"
    chart_style.set_titles(axes, title, x="due in (seconds; left of 0 is overdue)", y="timers")
    if not due.total:
        chart_style.write_no_rows(axes, "no timer is set")
        return figure
    histogram.draw(axes, due, {_OVERDUE: chart_style.RED, _AHEAD: chart_style.BLUE})
    axes.axvline(0, color="black", lw=0.8)
    chart_style.whole_numbers(axes, x=True, y=True)
    return figure
