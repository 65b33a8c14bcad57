"""Sessions of devices over time: one bar per session, its heartbeats, and the messages of the device."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from sessionization.notebook import chart_style

_BEAT_HEIGHT = 0.28
_MOST_WIDE_BEATS = 60
"""With more, wide marks would hide the colour of the bars."""
_TOO_LONG_FOR_SECONDS_MS = 600_000
_LIVE_MARGIN_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Bar:
    """A session as its changes show it; `guessed_ms` is its first end, where a correction replaced that."""

    session_id: int
    started_ms: int | None
    ended_ms: int | None
    reason: str
    revision: int
    guessed_ms: int | None
    beats_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeviceTimeline:
    """One device: its caption, its sessions, and the arrivals of its messages (`>` Start, `<` End; instant)."""

    device_id: str
    caption: str
    bars: Sequence[Bar]
    arrivals: Sequence[tuple[str, int]] = field(default=())


def bars_of(changes: Iterable[Mapping[str, Any]]) -> list[Bar]:
    """Build the sessions of one device from its changes, ordered by their start.

    Args:
        changes: `session_id`, `change`, `end_reason`, `revision`, `started_ms`, `ended_ms`, `due_ms` of each.
    """
    by_session: dict[int, list[Mapping[str, Any]]] = {}
    for change in changes:
        by_session.setdefault(change["session_id"], []).append(change)
    bars = [_bar(session_id, changes_of_session) for session_id, changes_of_session in by_session.items()]
    return sorted(bars, key=lambda bar: (bar.started_ms or bar.ended_ms or 0, bar.session_id))


def summary(bars: Sequence[Bar]) -> str:
    """How many sessions there are, and how many ended as reported, in words for a title."""
    reported = [bar for bar in bars if bar.reason == "reported"]
    corrected = sum(bar.revision > 0 for bar in reported)
    after = f", {corrected} of them after a correction" if corrected else ""
    return f"{len(bars)} sessions: {len(reported)} end as reported{after}"


def draw(devices: Sequence[DeviceTimeline], title: str) -> Figure:
    """Draw one strip per device, all over the same span of time."""
    figure, all_axes = chart_style.new_figure(max(1, len(devices)), 1.15 if len(devices) > 1 else 2.4, share_x=True)
    times = [instant for device in devices for instant in _instants(device)]
    if not times:
        chart_style.write_no_rows(all_axes[0])
        chart_style.set_titles(all_axes[0], title)
        return figure
    zero_ms, until_ms = min(times), max(times)
    # A live session continues, so its bar is visible even where its Start is the last instant.
    if any(bar.reason == "live" for device in devices for bar in device.bars):
        until_ms += max(round((until_ms - zero_ms) * _LIVE_MARGIN_SHARE), 1)
    unit_ms, unit = (1_000, "seconds") if until_ms - zero_ms <= _TOO_LONG_FOR_SECONDS_MS else (60_000, "minutes")
    for axes, device in zip(all_axes, devices, strict=True):
        _draw_strip(axes, device, zero_ms, until_ms, unit_ms)
        caption = f": {device.caption}" if device.caption else ""
        axes.set_title(f"{device.device_id}{caption}", loc="left", fontsize=9.5)
    all_axes[-1].set_xlabel(f"{unit} after {chart_style.to_datetimes([zero_ms])[0]:%H:%M:%S} UTC (event time)")
    all_axes[-1].xaxis.set_major_locator(MaxNLocator(10))
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    figure.legend(
        handles=_legend(devices),
        loc="outside lower center",
        ncols=8,
        frameon=False,
        fontsize=8,
        columnspacing=1.0,
        handlelength=1.0,
    )
    height = figure.get_figheight()
    figure.set_figheight(height + 0.8)
    return figure


def _bar(session_id: int, changes: Sequence[Mapping[str, Any]]) -> Bar:
    ends = sorted((change for change in changes if change["change"] == "ended"), key=lambda change: change["revision"])
    last = ends[-1] if ends else None
    started = [change["started_ms"] for change in changes if change["started_ms"] is not None]
    return Bar(
        session_id=session_id,
        started_ms=min(started, default=None),
        ended_ms=last["ended_ms"] if last else None,
        reason=last["end_reason"] if last else "live",
        revision=last["revision"] if last else 0,
        guessed_ms=ends[0]["ended_ms"] if len(ends) > 1 else None,
        beats_ms=tuple(change["due_ms"] for change in changes if change["change"] == "heartbeat"),
    )


def _instants(device: DeviceTimeline) -> Iterable[int]:
    for bar in device.bars:
        for instant in (bar.started_ms, bar.ended_ms, bar.guessed_ms, *bar.beats_ms):
            if instant is not None:
                yield instant
    yield from (instant for _, instant in device.arrivals)


def _draw_strip(axes: Axes, device: DeviceTimeline, zero_ms: int, until_ms: int, unit_ms: int) -> None:
    def x_of(instant_ms: int) -> float:
        return (instant_ms - zero_ms) / unit_ms

    beat_width = 1.0 if sum(len(bar.beats_ms) for bar in device.bars) <= _MOST_WIDE_BEATS else 0.3
    for row, bar in enumerate(device.bars):
        if bar.started_ms is None:
            assert bar.ended_ms is not None
            axes.plot(x_of(bar.ended_ms), row, marker="X", color=chart_style.REASON_COLOURS["orphaned"], markersize=9)
        else:
            ended_ms = until_ms if bar.ended_ms is None else bar.ended_ms
            colour = chart_style.REASON_COLOURS[bar.reason]
            axes.barh(row, x_of(ended_ms) - x_of(bar.started_ms), left=x_of(bar.started_ms), height=0.5, color=colour)
            if bar.guessed_ms is not None:
                axes.vlines(x_of(bar.guessed_ms), row - 0.4, row + 0.4, color="black", linestyles="dotted")
        beats = [x_of(beat) for beat in bar.beats_ms]
        axes.vlines(beats, row - _BEAT_HEIGHT, row + _BEAT_HEIGHT, color="black", lw=beat_width)
    for kind, instant in device.arrivals:
        axes.plot(x_of(instant), -0.75, marker=kind, color="black", markersize=6, clip_on=False)
    axes.set_yticks(range(len(device.bars)), [f"session {bar.session_id}" for bar in device.bars])
    axes.set_ylim(-1.1 if device.arrivals else -0.6, max(1, len(device.bars)) - 0.4)
    axes.grid(visible=True, axis="x", color="#DDDDDD", lw=0.6)
    axes.set_axisbelow(True)


def _legend(devices: Sequence[DeviceTimeline]) -> list[Any]:
    bars = [bar for device in devices for bar in device.bars]
    handles: list[Any] = [
        Patch(color=colour, label=reason.replace("_", " "))
        for reason, colour in chart_style.REASON_COLOURS.items()
        if reason in {bar.reason for bar in bars}
    ]
    if any(bar.beats_ms for bar in bars):
        handles.append(Line2D([], [], color="black", marker="|", ls="", label="heartbeat"))
    if any(bar.guessed_ms is not None for bar in bars):
        handles.append(Line2D([], [], color="black", ls="dotted", label="end before its correction"))
    if any(device.arrivals for device in devices):
        handles.append(Line2D([], [], color="black", marker=">", ls="", label="Start comes"))
        handles.append(Line2D([], [], color="black", marker="<", ls="", label="End comes"))
    return handles
