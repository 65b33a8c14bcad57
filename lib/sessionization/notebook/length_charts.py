"""Pictures of the forecasts of session lengths: the model against its baseline, and the live sessions."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession

from sessionization.ml.evaluation import LEVELS, SOURCES, Evaluation, comparison_rows
from sessionization.ml.scoring import REMAINING
from sessionization.ml.training import Training
from sessionization.notebook import chart_style

_COLOURS = {"model": chart_style.BLUE, "baseline": chart_style.ORANGE}
_LABELS = {"model": "model", "baseline": "baseline: survival curve"}
_BAR = 0.38
_S_IN_MINUTE, _MS_IN_MINUTE = 60, 60_000
_MOST_SESSIONS = 40


def model_against_baseline(training: Training) -> Figure:
    """Draw the p50 loss of both at each age, and how often sessions ended before each forecast quantile."""
    evaluation = training.evaluation
    figure, (losses, calibration) = chart_style.new_figure(2, 3.0)
    chart_style.set_titles(
        losses,
        f"{_finding(evaluation)} (last {_span(training)})",
        x="age of the session at the forecast (minutes)",
        y="p50 pinball loss (minutes)",
    )
    _draw_losses(losses, training)
    model, baseline = (_furthest(evaluation.calibration[source]) for source in SOURCES)
    chart_style.set_titles(
        calibration,
        f"Calibration: shares are off by at most {model:.0%} (model) and {baseline:.0%} (baseline)",
        x="forecast probability that the session is over by then (%)",
        y="sessions that were (%)",
    )
    calibration.plot([0, 100], [0, 100], color=chart_style.GREY, lw=0.8)
    for source in SOURCES:
        shares = [100 * value for value in evaluation.calibration[source]]
        levels = [100 * level for level in LEVELS]
        calibration.plot(levels, shares, "o-", ms=4, color=_COLOURS[source], label=_LABELS[source])
    calibration.legend(frameon=False)
    return figure


def comparison_table(spark: SparkSession, trainings: Mapping[str, Training]) -> DataFrame:
    """Make a row per training, source and age.

    Returns:
        `players` (the name of the training), `source`, `age` (text, or `all`), `sessions`, the pinball losses
        `p10_min`, `p50_min` and `p90_min` in minutes, and `coverage`.
    """
    rows = [(name, *row) for name, training in trainings.items() for row in comparison_rows(training.evaluation)]
    losses = "p10_min double, p50_min double, p90_min double"
    return spark.createDataFrame(
        rows, f"players string, source string, age string, sessions long, {losses}, coverage double"
    )


def live_forecasts(rows: DataFrame) -> Figure:
    """Draw the forecast of live sessions, rows of `session_predictions`: a line from p10 to p90, a dot at p50.

    Of many sessions, 40 evenly spaced ones by their p50.
    """
    found = sorted(rows.select("platform", "age_ms", *REMAINING).collect(), key=lambda row: row.remaining_p50_ms)
    figure, (axes,) = chart_style.new_figure(height=4.0)
    x_label = "remaining time (minutes): line from p10 to p90, dot at p50"
    if not found:
        chart_style.set_titles(axes, "How long live sessions will go on", x=x_label)
        chart_style.write_no_rows(axes, "no session is live")
        return figure
    median_min = found[len(found) // 2].remaining_p50_ms / _MS_IN_MINUTE
    title = f"Half of the {len(found):,} live sessions have a p50 of less than {median_min:,.0f} min to go"
    chart_style.set_titles(axes, title, x=x_label, y="live sessions, by p50")
    step = max(len(found) / _MOST_SESSIONS, 1)
    shown = [found[int(number * step)] for number in range(int(len(found) / step))]
    for number, row in enumerate(shown):
        low, median, high = (row[name] / _MS_IN_MINUTE for name in REMAINING)
        colour = chart_style.PLATFORM_COLOURS[row.platform]
        axes.plot([low, high], [number, number], color=colour, lw=1.5)
        axes.plot([median], [number], "o", ms=4, color=colour)
    axes.tick_params(left=False, labelleft=False)
    axes.set_xlim(left=0)
    for platform, colour in chart_style.PLATFORM_COLOURS.items():
        axes.plot([], [], "o-", ms=4, color=colour, label=platform)
    axes.legend(frameon=False)
    return figure


def _finding(evaluation: Evaluation) -> str:
    share = evaluation.gain_min / (evaluation.score("baseline").pinball_min[0.5] or 1.0)
    if evaluation.beats_baseline:
        return f"The model beats the survival curve: its loss is {share:.0%} lower"
    difference = f"{share:.1%} lower by chance" if share > 0 else f"{-share:.1%} higher"
    return f"The model does not beat the survival curve: loss {difference}"


def _draw_losses(axes: Axes, training: Training) -> None:
    ages = [score.age_s for score in training.evaluation.scores if score.source == "model" and score.age_s is not None]
    for offset, source in zip((-_BAR / 2, _BAR / 2), SOURCES, strict=True):
        values = [training.evaluation.score(source, age).pinball_min[0.5] for age in ages]
        places = [place + offset for place in range(len(ages))]
        drawn = axes.bar(places, values, _BAR, color=_COLOURS[source], label=_LABELS[source])
        axes.bar_label(drawn, fmt="{:,.1f}", padding=2, fontsize=9)
    axes.set_xticks(range(len(ages)), [f"{age / _S_IN_MINUTE:,.0f}" for age in ages])
    axes.legend(frameon=False)
    chart_style.start_at_zero(axes)


def _furthest(shares: tuple[float, ...]) -> float:
    return max(abs(share - level) for share, level in zip(shares, LEVELS, strict=True))


def _span(training: Training) -> str:
    minutes = (training.as_of_ms - training.split_ms) / _MS_IN_MINUTE
    return f"{minutes / 60:,.0f} h" if minutes >= 2 * 60 else f"{minutes:,.0f} min"
