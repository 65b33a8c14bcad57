"""Charts of results."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tests.bench.report import Results, titled
from tests.bench.scenario import Result

_RATES = {"starts": ("starts_per_s", "Starts per second"), "beats": ("heartbeats_per_s", "Heartbeats per second")}
_LIMIT_S = 5
_MS_IN_S = 1_000


def draw(results: Results, folder: Path) -> Iterator[Path]:
    """Draw a chart for each kind of result, into SVG files in `folder`."""
    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "bench", "axes.spines.top": False, "axes.spines.right": False}
    full_speed = {key: runs for key, runs in results.items() if key[0].load in _RATES}
    steady = {key: runs for key, runs in results.items() if key[0].load == "mix"}
    folder.mkdir(parents=True, exist_ok=True)
    if full_speed:
        figure, axes = plt.subplots(1, len(_RATES), figsize=(11, 0.6 * len(full_speed) / len(_RATES) + 1.5))
        for load, one in zip(_RATES, axes, strict=True):
            _rates(one, load, {key: runs for key, runs in full_speed.items() if key[0].load == load})
        yield _saved(figure, folder / "throughput.svg")
    if steady:
        figure, axes = plt.subplots(len(steady), 1, figsize=(11, 2 * len(steady) + 0.5), squeeze=False, sharex=True)
        for one, ((scenario, side), runs) in zip(axes[:, 0], steady.items(), strict=True):
            _ticks(one, titled(scenario, side, steady), runs.values())
        axes[-1, 0].set_xlabel("seconds after the warm-up")
        yield _saved(figure, folder / "held.svg")


def _rates(axes: Axes, load: str, results: Results) -> None:
    """Draw a bar per layout: the median, with a line from minimum to maximum."""
    name, title = _RATES[load]
    rates = [[run.figures()[name] for run in runs.values()] for runs in results.values()]
    medians = [median(values) for values in rates]
    spread = [[median_rate - min(values) for median_rate, values in zip(medians, rates, strict=True)],
             [max(values) - median_rate for median_rate, values in zip(medians, rates, strict=True)]]  # fmt: skip
    axes.barh(
        [titled(*key, results).split(", ", 2)[2] for key in results],
        medians,
        xerr=spread,
        color="tab:blue",
        ecolor="black",
    )
    axes.invert_yaxis()
    axes.set_title(title)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _ticks(axes: Axes, title: str, runs: Iterable[Result]) -> None:
    """Draw the duration of the micro-batches over time, a line per run."""
    for run in runs:
        end_times_s, end_s = [], 0.0
        for tick_ms in run.ticks_ms:
            end_s += max(tick_ms / _MS_IN_S, 1.0)  # the trigger is a second
            end_times_s.append(end_s)
        axes.plot(end_times_s, [tick_ms / _MS_IN_S for tick_ms in run.ticks_ms], linewidth=0.8)
    axes.axhline(_LIMIT_S, color="tab:red", linewidth=0.8, linestyle="--")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("micro-batch, s")
    axes.set_title(title, fontsize="medium", loc="left")


def _saved(figure: plt.Figure, file: Path) -> Path:
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
    return file
