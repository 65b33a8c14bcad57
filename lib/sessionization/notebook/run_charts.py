"""Pictures of runs side by side, from MLflow."""

from collections.abc import Sequence
from itertools import islice

from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import DataFrame, SparkSession

from sessionization.ml.run_names import RunKind
from sessionization.ml.stored_runs import StoredRun, differing_parameters, metric_series, newest_runs
from sessionization.notebook import chart_style

_COLOURS = (
    chart_style.BLUE,
    chart_style.ORANGE,
    chart_style.GREEN,
    chart_style.RED,
    chart_style.PURPLE,
    chart_style.SKY,
)
_SHOWN = (
    ("batch_ms", "How long a micro-batch took", "ms"),
    ("lateness_p99_ms", "Heartbeats: from due to table, p99", "ms"),
    ("latency_p99_ms", "Events: from ingest to table, p99", "ms"),
    ("state_rows", "Rows in state", "rows"),
)
_OF_QUERY = "sessionize."
_MOST_BENCHMARKS = 12
_RATES = (("starts_per_s", "Starts per second"), ("heartbeats_per_s", "Heartbeats per second"))
_NO_BENCHMARK = "no benchmark of this yet: on a laptop make bench-quick measures, in three minutes"


class RunsSettings(BaseModel):
    """Which runs to compare."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stores: tuple[str, ...] = Field(
        (),
        description="MLflow tracking URIs; without any, where stream runs are kept",
        json_schema_extra={"repeatable": True},
    )
    runs: int = Field(4, ge=2, le=len(_COLOURS), description="how many of the newest stream runs to compare")


def newest_streams(settings: RunsSettings) -> list[StoredRun]:
    """The newest runs of the stream, the oldest of them first."""
    return list(islice(newest_runs(RunKind.STREAM, settings.stores), settings.runs))[::-1]


def newest_benchmarks(settings: RunsSettings) -> list[StoredRun]:
    """The newest runs of benchmarks that have a rate, the oldest first."""
    names = {name for name, _ in _RATES}
    found = (run for run in newest_runs(RunKind.BENCHMARK, settings.stores) if names & run.metrics.keys())
    return list(islice(found, _MOST_BENCHMARKS))[::-1]


def table_of(spark: SparkSession, runs: Sequence[StoredRun]) -> DataFrame:
    """The runs as rows: when each began, what they differ in, and the median of each metric that the pictures show.

    Returns:
        `began_at`, `run`, `differs_in`, `batch_ms`, `lateness_p99_ms`, `latency_p99_ms`, `state_rows`.
    """
    rows = [
        (
            run.began_at.strftime("%Y-%m-%d %H:%M:%S"),
            run.name,
            told,
            *(metric_series(run, f"{_OF_QUERY}{metric}").median for metric, _, _ in _SHOWN),
        )
        for run, told in zip(runs, _told_apart(runs), strict=True)
    ]
    medians = ", ".join(f"{metric} double" for metric, _, _ in _SHOWN)
    return spark.createDataFrame(rows, f"began_at string, run string, differs_in string, {medians}")


def compare_streams(runs: Sequence[StoredRun]) -> Figure:
    """Each metric over the seconds of a run, a line a run."""
    figure, axes = chart_style.new_figure(len(_SHOWN), 2.1, share_x=True)
    for run, told, colour in zip(runs, _told_apart(runs), _COLOURS, strict=False):
        of_run = [metric_series(run, f"{_OF_QUERY}{metric}") for metric, _, _ in _SHOWN]
        first_ms = min((at_ms for points in of_run for at_ms in points.at_ms), default=0)
        for one, points in zip(axes, of_run, strict=True):
            seconds = [(at_ms - first_ms) / 1_000 for at_ms in points.at_ms]
            if seconds:
                label = f"{run.name} ({told})" if told else run.name
                one.plot(seconds, points.values, ".-", ms=4, color=colour, label=label)
    for one, (_, title, unit) in zip(axes, _SHOWN, strict=True):
        chart_style.set_titles(one, title, y=unit)
        if one.lines:
            chart_style.whole_numbers(one, y=True)
            chart_style.start_at_zero(one)
        else:
            chart_style.write_no_rows(one, "no run has this yet")
    axes[-1].set_xlabel("seconds since the run's first micro-batch")
    handles = {label: line for one in axes for line, label in zip(*one.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", frameon=False, fontsize=9)
    return figure


def compare_benchmarks(runs: Sequence[StoredRun]) -> Figure:
    """The rates of benchmark runs, a bar a run."""
    figure, axes = chart_style.new_figure(len(_RATES), max(1.6, 0.35 * len(runs)))
    for one, (metric, title) in zip(axes, _RATES, strict=True):
        chart_style.set_titles(one, title, x="rows a second, on this run's machine")
        having = [run for run in runs if run.metrics.get(metric)]  # a load of the one kind has none of the other
        if having:
            names = [f"{run.name} ({run.began_at:%m-%d %H:%M:%S})" for run in having]
            chart_style.bars(one, names, [run.metrics[metric] for run in having], [chart_style.BLUE] * len(having))
        else:
            chart_style.write_no_rows(one, _NO_BENCHMARK)
    return figure


def _told_apart(runs: Sequence[StoredRun]) -> list[str]:
    """Of each run what it differs in from the others."""
    told = differing_parameters(runs)
    return [", ".join(f"{name}={values[at]}" for name, values in told.items() if values[at]) for at in range(len(runs))]
