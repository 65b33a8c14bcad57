"""Pictures of runs side by side, from MLflow."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import DataFrame, SparkSession

from sessionization.ml.runs import RunOfStream, differing, find_runs, series
from sessionization.notebook import style

_COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.RED, style.PURPLE, style.SKY)
_SHOWN = (
    ("sessionize.batch_ms", "How long a micro-batch took", "ms"),
    ("sessionize.lateness_p99_ms", "Heartbeats: from due to table, p99", "ms"),
    ("sessionize.latency_p99_ms", "Events: from ingest to table, p99", "ms"),
    ("sessionize.state_rows", "Rows in state", "rows"),
)
_MOST_BENCHMARKS = 12
_RATES = (("starts_per_s", "Starts per second"), ("heartbeats_per_s", "Heartbeats per second"))


class RunsSettings(BaseModel):
    """Which runs to compare."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stores: tuple[str, ...] = Field(
        (),
        description="MLflow tracking URIs; without any, where stream runs are kept",
        json_schema_extra={"repeatable": True},
    )
    runs: int = Field(4, ge=2, le=len(_COLOURS), description="how many of the newest stream runs to compare")


def newest_streams(settings: RunsSettings) -> list[RunOfStream]:
    """The newest runs of the stream, the oldest of them first."""
    return [run for run in find_runs(settings.stores) if run.kind == "stream"][: settings.runs][::-1]


def newest_benchmarks(settings: RunsSettings) -> list[RunOfStream]:
    """The newest runs of benchmarks that have a rate, the oldest first."""
    names = {name for name, _ in _RATES}
    found = [run for run in find_runs(settings.stores) if run.kind == "benchmark" and names & run.metrics.keys()]
    return found[:_MOST_BENCHMARKS][::-1]


def table_of(spark: SparkSession, runs: Sequence[RunOfStream]) -> DataFrame:
    """The runs as rows: when each began, what they differ in, and the last value of what the pictures show."""
    told = differing(runs)
    rows = [
        (
            run.began_at.strftime("%Y-%m-%d %H:%M:%S"),
            run.name,
            ", ".join(f"{name}={values[at]}" for name, values in told.items() if values[at]),
            {metric: run.metrics[metric] for metric, _, _ in _SHOWN if metric in run.metrics},
        )
        for at, run in enumerate(runs)
    ]
    return spark.createDataFrame(rows, "began_at string, run string, differs_in string, last map<string, double>")


def compare_streams(runs: Sequence[RunOfStream]) -> Figure:
    """Each metric over the seconds of a run, a line a run."""
    figure, axes = style.figure_of(len(_SHOWN), 2.1, share_x=True)
    for one, (metric, title, unit) in zip(axes, _SHOWN, strict=True):
        style.titled(one, title, y=unit)
        for run, colour in zip(runs, _COLOURS, strict=False):
            points = series(run, metric)
            if points.values:
                one.plot(points.seconds, points.values, ".-", ms=3, color=colour, label=_called(run, runs))
        if one.lines:
            style.whole_numbers(one, y=True)
            style.from_zero(one)
        else:
            style.without_rows(one, "no run has this yet")
    axes[-1].set_xlabel("seconds since the run's first micro-batch")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def compare_benchmarks(runs: Sequence[RunOfStream]) -> Figure:
    """The rates of benchmark runs, a bar a run."""
    figure, axes = style.figure_of(len(_RATES), max(1.6, 0.35 * len(runs)))
    for one, (metric, title) in zip(axes, _RATES, strict=True):
        style.titled(one, title, x="rows a second, on this run's machine")
        having = [run for run in runs if run.metrics.get(metric)]  # a load of the one kind has none of the other
        if having:
            names = [f"{run.name} ({run.began_at:%m-%d %H:%M:%S})" for run in having]
            style.bars(one, names, [run.metrics[metric] for run in having], [style.BLUE] * len(having))
        else:
            style.without_rows(one, "no benchmark of this yet: make bench-quick measures, in three minutes")
    return figure


def _called(run: RunOfStream, runs: Sequence[RunOfStream]) -> str:
    """A run's name with what tells it from the others."""
    at = list(runs).index(run)
    told = ", ".join(f"{name} {values[at]}" for name, values in differing(runs).items() if values[at])
    return f"{run.name}{f' ({told})' if told else ''}"
