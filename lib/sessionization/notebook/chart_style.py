"""How pictures look: one plotting library, the same colours for the same things, every axis with its unit."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sessionization.clock import utc

# Eight colours that people with any colour vision can tell apart (Okabe and Ito).
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999999",
)  # fmt: skip
OF_REASON: Final = {"reported": GREEN, "superseded": ORANGE, "timed_out": RED, "orphaned": PURPLE, "live": SKY}
OF_PLATFORM: Final = {"pc": BLUE, "console": ORANGE}
WIDTH: Final = 9.0
_NO_ROWS = "no rows yet"


def new_figure(rows: int = 1, height: float = 3.2, *, share_x: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure with axes below each other; `height` is that of each, in inches.

    Not one of pyplot's: those are shown a second time at the end of a cell.
    """
    figure = Figure(figsize=(WIDTH, rows * height), layout="constrained", facecolor="white")
    axes = figure.subplots(rows, 1, squeeze=False, sharex=share_x)[:, 0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=9)
        one.title.set_size(11)
    return figure, list(axes)


def set_titles(axes: Axes, title: str, *, x: str = "", y: str = "") -> None:
    """A title, and what the axes show with its unit."""
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def whole_numbers(axes: Axes, *, x: bool = False, y: bool = False) -> None:
    """Whole numbers only, with thousands set apart."""
    for axis, wanted in ((axes.xaxis, x), (axes.yaxis, y)):
        if wanted:
            axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def time_axis(axes: Axes) -> None:
    """Instants on the x axis, as short as can be."""
    locator = AutoDateLocator(maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))


def start_at_zero(axes: Axes) -> None:
    """Begin the y axis at zero, with some room above; after all is drawn."""
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])


def to_datetimes(values_ms: Sequence[int]) -> list[Any]:
    """UTC milliseconds as instants that an axis takes."""
    return [utc(value) for value in values_ms]


def bars(axes: Axes, names: Sequence[str], values: Sequence[float], colours: Sequence[str]) -> None:
    """Bars from the left with their values written at the end, the first on top."""
    drawn = axes.barh(names, values, color=list(colours), height=0.65)
    axes.bar_label(drawn, fmt="{:,.0f}", padding=4, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    whole_numbers(axes, x=True)


def write_no_rows(axes: Axes, why: str = _NO_ROWS) -> None:
    """Say in the picture that there is nothing to show, and why."""
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.tick_params(left=False, labelleft=False)
    sharing = axes.get_shared_x_axes().get_siblings(axes)
    if not any(
        other.has_data() for other in sharing
    ):  # ticks are not taken away here: they would be from all that share them
        axes.tick_params(bottom=False, labelbottom=False)
