"""Pictures of the tables and views; each title states what it shows. Times are UTC.

Call `notebook_tables.use_tables` or `sample_evening.open_sample` first.
"""

from collections import defaultdict

from matplotlib.figure import Figure
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc
from sessionization.notebook import chart_style, histogram, timeline

_MS_IN_MINUTE = 60_000
_MOST_MINUTES = 180
_RECENT_SPAN = "INTERVAL 24 HOURS"
"""How far `recent_concurrent_sessions` goes back."""
_NO_CHANGE = "no change yet: start the job, and players (the job simulate)"


def concurrent_sessions(spark: SparkSession) -> Figure:
    """Draw the sessions that touched each minute, by platform, for the three hours up to the last session.

    It reads all sessions only if these hours began more than a day ago.
    """
    last_since = f"current_timestamp() - {_RECENT_SPAN} + INTERVAL {_MOST_MINUTES} MINUTES"
    rows = _last_minutes(spark, "recent_concurrent_sessions", last_since)
    rows = rows or _last_minutes(spark, "concurrent_sessions")
    figure, (axes,) = chart_style.new_figure()
    chart_style.set_titles(axes, "Concurrent sessions", x="minute (event time, UTC)", y="sessions")
    if not rows:
        chart_style.write_no_rows(axes)
        return figure
    by_platform: dict[str, list[tuple[int, int]]] = defaultdict(list)
    in_minute: dict[int, int] = defaultdict(int)
    for row in rows:
        by_platform[row.platform].append((row.minute_ms, row.sessions))
        in_minute[row.minute_ms] += row.sessions
    fullest_ms = max(in_minute, key=in_minute.__getitem__)
    chart_style.add_finding(axes, f"at most {in_minute[fullest_ms]:,} in a minute, at {utc(fullest_ms):%H:%M}")
    for platform, points in sorted(by_platform.items()):
        axes.step(
            chart_style.to_datetimes([minute_ms for minute_ms, _ in points]),
            [sessions for _, sessions in points],
            where="post",
            color=chart_style.PLATFORM_COLOURS[platform],
            label=platform,
        )
    chart_style.time_axis(axes)
    chart_style.whole_numbers(axes, y=True)
    chart_style.start_at_zero(axes)
    axes.legend(frameon=False)
    return figure


def _last_minutes(spark: SparkSession, view: str, last_since: str = "TIMESTAMP '1970-01-01'") -> list[Row]:
    """The view's last minutes; none if its last one is before the SQL expression `last_since`."""
    return _rows(
        spark,
        f"""
        SELECT unix_millis(minute) AS minute_ms, platform, sessions
        FROM (SELECT *, max(minute) OVER () AS last_minute FROM {view})
        WHERE minute >= last_minute - INTERVAL {_MOST_MINUTES} MINUTES AND last_minute >= {last_since}
        ORDER BY minute
        """,
    )


def session_lengths(spark: SparkSession) -> Figure:
    """Draw the lengths of sessions, by end reason."""
    lengths = histogram.histogram(
        spark.sql(
            f"""
            SELECT duration_ms / {_MS_IN_MINUTE} AS value, end_reason AS kind FROM sessions
            WHERE duration_ms IS NOT NULL
            """
        )
    )
    figure, (axes,) = chart_style.new_figure()
    chart_style.set_titles(axes, "Session lengths", x="length (minutes)", y="sessions")
    if lengths.median is None:
        chart_style.write_no_rows(axes, "no session has ended yet")
        return figure
    chart_style.add_finding(axes, f"{lengths.total:,} sessions, the median is {lengths.median:,.1f} minutes")
    histogram.draw(axes, lengths, chart_style.REASON_COLOURS)
    chart_style.whole_numbers(axes, y=True)
    return figure


def ends_by_reason(spark: SparkSession) -> Figure:
    """Draw the number of sessions per end reason of their last revision, and of live ones."""
    rows = _rows(spark, "SELECT coalesce(end_reason, 'live') AS reason, count(*) AS sessions FROM sessions GROUP BY 1")
    sessions_by_reason = {row.reason: row.sessions for row in rows}
    figure, (axes,) = chart_style.new_figure(height=2.6)
    chart_style.set_titles(axes, "Sessions by how they ended", x="sessions")
    if ended := sum(count for reason, count in sessions_by_reason.items() if reason != "live"):
        share = sessions_by_reason.get("reported", 0) / ended
        chart_style.add_finding(axes, f"{share:.0%} of {ended:,} have the end that was reported")
    reasons = [reason for reason in chart_style.REASON_COLOURS if reason in sessions_by_reason]
    if not reasons:
        chart_style.write_no_rows(axes)
        return figure
    names = [reason.replace("_", " ") for reason in reasons]
    chart_style.bars(
        axes,
        names,
        [sessions_by_reason[reason] for reason in reasons],
        [chart_style.REASON_COLOURS[reason] for reason in reasons],
    )
    return figure


def corrected_ends(spark: SparkSession) -> Figure:
    """Draw by how much corrections moved an end, from its first revision to its last."""
    moves = histogram.histogram(
        spark.sql(
            f"""
            SELECT (max_by(unix_millis(ended_at), revision) - min_by(unix_millis(ended_at), revision))
                     / {_MS_IN_MINUTE} AS value, 'moved' AS kind
            FROM session_changes WHERE change = 'ended' AND end_reason != 'orphaned'
            GROUP BY device_id, session_id HAVING max(revision) > 0
            """
        )
    )
    figure, (axes,) = chart_style.new_figure(height=2.8)
    chart_style.set_titles(axes, "Corrected ends", x="end moved by (minutes; left of 0 is earlier)", y="sessions")
    if moves.median is None:
        chart_style.write_no_rows(axes, "no end was corrected yet")
        return figure
    chart_style.add_finding(axes, f"{moves.total:,}, the median moved by {moves.median:+,.1f} minutes")
    histogram.draw(axes, moves, {"moved": chart_style.BLUE})
    axes.axvline(0, color="black", lw=0.8)
    chart_style.whole_numbers(axes, y=True)
    return figure


def quarantine(spark: SparkSession) -> Figure:
    """Draw the number of messages in quarantine, by reason."""
    rows = _rows(spark, "SELECT reason, count(*) AS messages FROM quarantine GROUP BY 1 ORDER BY 2 DESC, 1")
    figure, (axes,) = chart_style.new_figure(height=3.0)
    chart_style.set_titles(axes, "Quarantine", x="messages")
    if not rows:
        chart_style.write_no_rows(axes, "nothing is in quarantine")
        return figure
    names = [row.reason.replace("_", " ") for row in rows]
    chart_style.add_finding(axes, f"{sum(row.messages for row in rows):,} messages, most often for {names[0]}")
    chart_style.bars(axes, names, [row.messages for row in rows], [chart_style.RED] * len(rows))
    return figure


def device_timeline(spark: SparkSession, device_id: str | None) -> Figure:
    """Draw the sessions of a device; the picture says so if it has no change yet, or if there is no device (None)."""
    rows = device_changes(spark, device_id).collect()
    if not rows:
        figure, (axes,) = chart_style.new_figure(height=2.4)
        chart_style.set_titles(axes, "One device")
        chart_style.write_no_rows(axes, _NO_CHANGE if device_id is None else f"device {device_id} has no change yet")
        return figure
    bars = timeline.bars_of(row.asDict() for row in rows)
    caption = f"{sum(len(bar.beats_ms) for bar in bars)} heartbeats"
    return timeline.draw(
        [timeline.DeviceTimeline(str(device_id), caption, bars)], f"A device has {timeline.summary(bars)}"
    )


def device_changes(spark: SparkSession, device_id: str | None) -> DataFrame:
    """Read all changes of a device in the order in which they happened, with added UTC milliseconds (`_ms`)."""
    changes = spark.table("device_timeline").where(F.col("device_id") == F.lit(device_id)).orderBy("position")
    in_ms = (F.unix_millis(f"{name}_at").alias(f"{name}_ms") for name in ("started", "ended", "due"))
    return changes.select("*", *in_ms)


def busy_device(spark: SparkSession) -> str | None:
    """Find a device with many sessions, kinds of ends, corrections and heartbeats; None if there is no change."""
    row = spark.sql(
        """
        SELECT device_id FROM session_changes GROUP BY device_id
        ORDER BY least(count(DISTINCT session_id), 6) + 3 * count(DISTINCT end_reason) + 3 * least(max(revision), 2)
                 + least(count_if(change = 'heartbeat'), 4) DESC,
                 device_id LIMIT 1
        """
    ).first()
    return None if row is None else str(row.device_id)


def _rows(spark: SparkSession, sql: str) -> list[Row]:
    return spark.sql(sql).collect()
