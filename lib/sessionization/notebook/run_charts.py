"""Pictures of runs side by side, from MLflow."""

from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import DataFrame, SparkSession

from sessionization.ml.runs import RunKind, StoredRun, metric_series, newest_runs
from sessionization.notebook import chart_style

_COLOURS = (
    chart_style.BLUE,
    chart_style.ORANGE,
    chart_style.GREEN,
    chart_style.RED,
    chart_style.PURPLE,
    chart_style.SKY,
)
_STREAM_METRICS = (
    ("batch_ms", "How long a micro-batch took", "ms"),
    ("lateness_p99_ms", "Heartbeats: from due to table, p99", "ms"),
    ("latency_p99_ms", "Events: from ingest to table, p99", "ms"),
    ("state_rows", "Rows in state", "rows"),
)
_METRIC_PREFIX = "sessionize."
_MOST_BENCHMARKS = 12
_RATES = (("starts_per_s", "Starts per second"), ("heartbeats_per_s", "Heartbeats per second"))
_NO_BENCHMARK = "no benchmark of this yet: on a laptop make bench-quick measures, in three minutes"


class RunsSettings(BaseModel):
    """Which runs to compare."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stores: tuple[str, ...] = Field(
        (),
        description="MLflow tracking URIs; without any, where stream runs are stored",
        json_schema_extra={"repeatable": True},
    )
    runs: int = Field(4, ge=2, le=len(_COLOURS), description="how many of the newest stream runs to compare")


def newest_streams(settings: RunsSettings) -> list[StoredRun]:
    """Find the newest runs of the stream, and return them from the oldest to the newest."""
    return newest_runs(RunKind.STREAM, settings.stores)[: settings.runs][::-1]


def newest_benchmarks(settings: RunsSettings) -> list[StoredRun]:
    """Find the newest benchmark runs that have a rate, and return them from the oldest to the newest."""
    names = {name for name, _ in _RATES}
    found = [run for run in newest_runs(RunKind.BENCHMARK, settings.stores) if names & run.metrics.keys()]
    return found[:_MOST_BENCHMARKS][::-1]


def comparison_table(spark: SparkSession, runs: Sequence[StoredRun]) -> DataFrame:
    """Make a row per run: its start, the settings in which it differs, and the median of each drawn metric.

    Returns:
        `began_at`, `run`, `differs_in`, `batch_ms`, `lateness_p99_ms`, `latency_p99_ms`, `state_rows`.
    """
    rows = [
        (
            run.began_at.strftime("%Y-%m-%d %H:%M:%S"),
            run.name,
            differences,
            *(_median(metric_series(run, f"{_METRIC_PREFIX}{metric}")[1]) for metric, _, _ in _STREAM_METRICS),
        )
        for run, differences in zip(runs, _differences(runs), strict=True)
    ]
    medians = ", ".join(f"{metric} double" for metric, _, _ in _STREAM_METRICS)
    return spark.createDataFrame(rows, f"began_at string, run string, differs_in string, {medians}")


def compare_streams(runs: Sequence[StoredRun]) -> Figure:
    """Draw each metric over the seconds of a run, one line per run."""
    figure, all_axes = chart_style.new_figure(len(_STREAM_METRICS), 2.1, share_x=True)
    for run, differences, colour in zip(runs, _differences(runs), _COLOURS, strict=False):
        series_of_run = [metric_series(run, f"{_METRIC_PREFIX}{metric}") for metric, _, _ in _STREAM_METRICS]
        first_ms = min((at_ms for all_at_ms, _ in series_of_run for at_ms in all_at_ms), default=0)
        for axes, (all_at_ms, values) in zip(all_axes, series_of_run, strict=True):
            seconds = [(at_ms - first_ms) / 1_000 for at_ms in all_at_ms]
            if seconds:
                label = f"{run.name} ({differences})" if differences else run.name
                axes.plot(seconds, values, ".-", ms=4, color=colour, label=label)
    for axes, (_, title, unit) in zip(all_axes, _STREAM_METRICS, strict=True):
        chart_style.set_titles(axes, title, y=unit)
        if axes.lines:
            chart_style.whole_numbers(axes, y=True)
            chart_style.start_at_zero(axes)
        else:
            chart_style.write_no_rows(axes, "no run has this yet")
    all_axes[-1].set_xlabel("seconds since the run's first micro-batch")
    handles = {label: line for axes in all_axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", frameon=False, fontsize=9)
    return figure


def compare_benchmarks(runs: Sequence[StoredRun]) -> Figure:
    """Draw the rates of benchmark runs, one bar per run."""
    figure, all_axes = chart_style.new_figure(len(_RATES), max(1.6, 0.35 * len(runs)))
    for axes, (metric, title) in zip(all_axes, _RATES, strict=True):
        chart_style.set_titles(axes, title, x="rows a second, on this run's machine")
        measured = [run for run in runs if run.metrics.get(metric)]  # a benchmark may have only one of the rates
        if measured:
            names = [f"{run.name} ({run.began_at:%m-%d %H:%M:%S})" for run in measured]
            chart_style.bars(axes, names, [run.metrics[metric] for run in measured], [chart_style.BLUE] * len(measured))
        else:
            chart_style.write_no_rows(axes, _NO_BENCHMARK)
    return figure


def _differences(runs: Sequence[StoredRun]) -> list[str]:
    """Format, for each run, the parameters in which it differs from the others."""
    names = sorted({name for run in runs for name in run.parameters})
    differing = [name for name in names if len({run.parameters.get(name, "") for run in runs}) > 1]
    return [
        ", ".join(f"{name}={run.parameters[name]}" for name in differing if run.parameters.get(name)) for run in runs
    ]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
