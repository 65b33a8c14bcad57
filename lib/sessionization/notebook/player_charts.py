"""The charts of the notebook 07_players that pandas does not draw."""

from typing import Final

import pandas as pd

_MOST_GAMES: Final = 8
_DARK_CELL: Final = 0.6
"""From this share of the highest value on, a cell is so dark that its text is white."""


def draw_retention(cohorts: pd.DataFrame, title: str = "Players who came back") -> None:
    """Draw a triangle: a row for each first day, a column for each day after it, and the share that played then.

    Args:
        cohorts: `cohort_day`, `later` (days after it, 0 for the day itself), `players`.
        title: of the chart.
    """
    if cohorts.empty:
        print(f"{title}: no rows yet")  # noqa: T201 - a notebook's output
        return
    import matplotlib.pyplot as plt

    counts = cohorts.pivot_table(index="cohort_day", columns="later", values="players")
    counts = counts.reindex(columns=range(int(cohorts["later"].max()) + 1))
    days = pd.to_datetime(counts.index)
    last_day = (pd.to_datetime(cohorts["cohort_day"]) + pd.to_timedelta(cohorts["later"], unit="D")).max()
    for number, day in enumerate(days):  # where a day has come and there is no row, nobody came back
        come = slice((last_day - day).days + 1)
        counts.iloc[number, come] = counts.iloc[number, come].fillna(0)
    shares = counts.div(counts[0], axis=0).drop(columns=0)
    highest = shares.max().max()
    figure, axes = plt.subplots(figsize=(9, 1 + 0.42 * len(shares)), layout="constrained")
    image = axes.imshow(shares.to_numpy(dtype=float), cmap="Blues", vmin=0, vmax=highest, aspect="auto")
    for row, of_cohort in enumerate(shares.to_numpy(dtype=float)):
        for column, share in enumerate(of_cohort):
            if not pd.isna(share):
                colour = "white" if share > _DARK_CELL * highest else "black"
                axes.text(column, row, f"{share:.0%}", ha="center", va="center", color=colour)
    axes.set_xticks(range(shares.shape[1]), [str(later) for later in shares.columns])
    axes.set_yticks(
        range(len(shares)), [f"{day:%a %d %b}, {count:,.0f} new" for day, count in zip(days, counts[0], strict=True)]
    )
    axes.set_xlabel("days after the first day")
    axes.set_title(title)
    figure.colorbar(image, format=lambda share, _: f"{share:.0%}", label="of the cohort")


def draw_play_time(hours: pd.DataFrame, title: str = "Play time by game") -> None:
    """Draw a bar for each day, of the games with the most play time and of all others together.

    Args:
        hours: `day`, `game`, `hours`.
        title: of the chart.
    """
    if hours.empty:
        print(f"{title}: no rows yet")  # noqa: T201 - a notebook's output
        return
    largest = hours.groupby("game")["hours"].sum().nlargest(_MOST_GAMES).index
    games = hours.assign(game=hours["game"].where(hours["game"].isin(largest), "others"))
    by_game = games.pivot_table(index="day", columns="game", values="hours", aggfunc="sum")
    by_game.index = [f"{day:%a %d %b}" for day in pd.to_datetime(by_game.index)]
    axes = by_game.plot(kind="bar", stacked=True, figsize=(9, 3), rot=0, title=title, xlabel="", ylabel="hours")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def draw_concurrency(minutes: pd.DataFrame, peaks: pd.DataFrame, title: str = "Concurrent sessions") -> None:
    """Draw how many sessions went on at once, with the peak of each day, and the highest of all in words.

    Args:
        minutes: `minute`, `sessions`; a minute without sessions may have no row.
        peaks: `peak_minute`, `peak_sessions`, a row for each day.
        title: of the chart.
    """
    if minutes.empty:
        print(f"{title}: no rows yet")  # noqa: T201 - a notebook's output
        return
    import matplotlib.pyplot as plt
    from matplotlib.dates import DateFormatter, DayLocator

    by_minute = minutes.set_index("minute")["sessions"].sort_index().asfreq("min", fill_value=0)
    highest = peaks.loc[peaks["peak_sessions"].idxmax()]
    _, axes = plt.subplots(figsize=(9, 3), layout="constrained")
    axes.fill_between(by_minute.index, by_minute.to_numpy(dtype=float), color="tab:blue", alpha=0.4)
    axes.plot(peaks["peak_minute"], peaks["peak_sessions"], "o", color="tab:orange", label="peak of the day")
    axes.annotate(
        f"{highest['peak_sessions']:,} on {highest['peak_minute']:%a at %H:%M}",
        (highest["peak_minute"], highest["peak_sessions"]),
        xytext=(-8, 6), textcoords="offset points", ha="right",
    )  # fmt: skip
    axes.set_ylim(0, 1.15 * max(by_minute.max(), highest["peak_sessions"]))
    axes.xaxis.set_major_locator(DayLocator())
    axes.xaxis.set_major_formatter(DateFormatter("%a %d %b"))
    axes.set_xlabel("event time (UTC)")
    axes.set_ylabel("sessions")
    axes.set_title(title)
    axes.legend(loc="upper left")


def draw_lengths(minutes: "pd.Series[float]", title: str = "Session lengths") -> None:
    """Draw how many sessions were how long, up to the longest but one in fifty, with the median and the p90."""
    if minutes.empty:
        print(f"{title}: no rows yet")  # noqa: T201 - a notebook's output
        return
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(9, 3), layout="constrained")
    longest = minutes.quantile(0.98)
    axes.hist(minutes[minutes <= longest], bins=40, color="tab:blue", alpha=0.7)
    for share, colour, name in ((0.5, "tab:orange", "median"), (0.9, "tab:red", "p90")):
        length = minutes.quantile(share, interpolation="lower")
        axes.axvline(length, color=colour, label=f"{name}: {length:,.0f} minutes")
    axes.set_xlabel("minutes")
    axes.set_ylabel("sessions")
    axes.set_title(title)
    axes.legend()
