"""What the charts of the notebooks share. pandas draws most of them, in the cells, with `plot`."""

from typing import Any, Final

import pandas as pd

REASON_COLOURS: Final = {
    "reported": "tab:green", "superseded": "tab:orange", "timed_out": "tab:red", "inactive": "tab:brown",
    "orphaned": "tab:purple", "live": "tab:blue",
}  # fmt: skip
_MARKERS: Final = {True: (">", "Start comes"), False: ("<", "End comes")}


def plot(rows: pd.DataFrame, **options: Any) -> None:
    """Draw `rows.plot(**options)`. Without rows, where pandas raises an error, say so in one line."""
    if rows.empty:
        print(f"{options.get('title', 'chart')}: no rows yet")  # noqa: T201 - a notebook's output
        return
    rows.plot(**{"figsize": (9, 3)} | options)


def draw_sessions(changes: pd.DataFrame, messages: pd.DataFrame | None = None, title: str = "Sessions") -> None:
    """Draw a bar for each session, coloured by its last end, with its heartbeats and the ends that were corrected.

    Args:
        changes: `device_id`, `session_id`, `change`, `end_reason`, `revision`, `processed_at`, `started_at`,
            `ended_at`, `due_at`, as in `session_changes`.
        messages: `device_id`, `session_id`, `is_start` (null for an Activity), `ingested_at`: drawn at their arrival.
        title: of the chart.
    """
    if changes.empty:
        print(f"{title}: no change yet")  # noqa: T201 - a notebook's output
        return
    import matplotlib.pyplot as plt

    sessions = changes.groupby(["device_id", "session_id"], sort=False)
    _, axes = plt.subplots(figsize=(9, 1 + 0.3 * len(sessions)))
    places = {}
    for place, (key, rows) in enumerate(sessions):
        places[key] = place
        ends = rows[rows["change"] == "ended"].sort_values("revision")
        is_live = ends.empty or rows[rows["change"] == "resumed"]["revision"].max() > ends["revision"].iloc[-1]
        reason = "live" if is_live else str(ends["end_reason"].iloc[-1])
        ended_at = changes["processed_at"].max() if is_live else ends["ended_at"].iloc[-1]
        if pd.isna(started_at := rows["started_at"].min()):
            axes.plot(ended_at, place, "X", color=REASON_COLOURS[reason], label=reason)
        else:
            axes.hlines(place, started_at, ended_at, linewidth=9, color=REASON_COLOURS[reason], label=reason)
        for marker, label, instants in (
            ("|", "heartbeat", rows["due_at"].dropna()),
            ("x", "end before its correction", ends["ended_at"].iloc[: None if is_live else -1]),
        ):
            if len(instants):
                axes.plot(instants, [place] * len(instants), marker, color="black", label=label)
    for message in () if messages is None else messages.itertuples():
        marker, label = (".", "sign comes") if pd.isna(message.is_start) else _MARKERS[bool(message.is_start)]
        below = places[message.device_id, message.session_id] + 0.3
        axes.plot(message.ingested_at, below, marker, color="black", markersize=5, label=label)
    axes.set_yticks(list(places.values()), [f"{device_id}, session {session_id}" for device_id, session_id in places])
    axes.invert_yaxis()
    axes.set_xlabel("event time (UTC)")
    axes.set_title(title)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(once.values(), once.keys(), loc="upper left", bbox_to_anchor=(1, 1))
