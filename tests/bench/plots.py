"""Pictures of results."""

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
_ALLOWED_S = 5
_MS_IN_S = 1_000


def draw(results: Results, folder: Path) -> Iterator[Path]:
    """Draw what there are results for, into SVG files below `folder`."""
    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "bench", "axes.spines.top": False, "axes.spines.right": False}
    flat_out = {key: runs for key, runs in results.items() if key[0].load in _RATES}
    held = {key: runs for key, runs in results.items() if key[0].load == "mix"}
    folder.mkdir(parents=True, exist_ok=True)
    if flat_out:
        figure, axes = plt.subplots(1, len(_RATES), figsize=(11, 0.6 * len(flat_out) / len(_RATES) + 1.5))
        for load, one in zip(_RATES, axes, strict=True):
            _rates(one, load, {key: runs for key, runs in flat_out.items() if key[0].load == load})
        yield _saved(figure, folder / "throughput.svg")
    if held:
        figure, axes = plt.subplots(len(held), 1, figsize=(11, 2 * len(held) + 0.5), squeeze=False, sharex=True)
        for one, ((scenario, side), runs) in zip(axes[:, 0], held.items(), strict=True):
            _ticks(one, titled(scenario, side, held), runs.values())
        axes[-1, 0].set_xlabel("seconds after the warm-up")
        yield _saved(figure, folder / "held.svg")


def _rates(axes: Axes, load: str, results: Results) -> None:
    """A bar per layout: the median, and the least and the most as a line."""
    name, title = _RATES[load]
    rates = [[run.figures()[name] for run in runs.values()] for runs in results.values()]
    middles = [median(values) for values in rates]
    reach = [[middle - min(values) for middle, values in zip(middles, rates, strict=True)],
             [max(values) - middle for middle, values in zip(middles, rates, strict=True)]]  # fmt: skip
    axes.barh(
        [titled(*key, results).split(", ", 2)[2] for key in results],
        middles,
        xerr=reach,
        color="tab:blue",
        ecolor="black",
    )
    axes.invert_yaxis()
    axes.set_title(title)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _ticks(axes: Axes, title: str, runs: Iterable[Result]) -> None:
    """How long each micro-batch took over the time, a line per run."""
    for run in runs:
        ends_s, at_s = [], 0.0
        for tick_ms in run.ticks_ms:
            at_s += max(tick_ms / _MS_IN_S, 1.0)  # the trigger is a second
            ends_s.append(at_s)
        axes.plot(ends_s, [tick_ms / _MS_IN_S for tick_ms in run.ticks_ms], linewidth=0.8)
    axes.axhline(_ALLOWED_S, color="tab:red", linewidth=0.8, linestyle="--")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("micro-batch, s")
    axes.set_title(title, fontsize="medium", loc="left")


def _saved(figure: plt.Figure, file: Path) -> Path:
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
    return file
