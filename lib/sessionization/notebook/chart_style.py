"""The look of all pictures: one plotting library, a fixed colour per meaning, a unit on every axis."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sessionization.clock import utc

# From the palette of Okabe and Ito, which people with any colour vision can distinguish.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999999",
)  # fmt: skip
REASON_COLOURS: Final = {"reported": GREEN, "superseded": ORANGE, "timed_out": RED, "orphaned": PURPLE, "live": SKY}
PLATFORM_COLOURS: Final = {"pc": BLUE, "console": ORANGE}
WIDTH: Final = 9.0
_NO_ROWS = "no rows yet"


def new_figure(rows: int = 1, height: float = 3.2, *, share_x: bool = False) -> tuple[Figure, list[Axes]]:
    """Create a figure with one axes per row; `height` is the height of each row, in inches.

    The figure is not registered with pyplot: Jupyter shows pyplot's figures a second time at the end of a cell.
    """
    figure = Figure(figsize=(WIDTH, rows * height), layout="constrained", facecolor="white")
    all_axes = figure.subplots(rows, 1, squeeze=False, sharex=share_x)[:, 0]
    for axes in all_axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9)
        axes.title.set_size(11)
    return figure, list(all_axes)


def set_titles(axes: Axes, title: str, *, x: str = "", y: str = "") -> None:
    """Set the title, and the label of each axis with its unit."""
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def add_finding(axes: Axes, finding: str) -> None:
    """Let the title also state what the picture shows. Call it after `set_titles`."""
    axes.set_title(f"{axes.get_title(loc='left')}: {finding}", loc="left")


def whole_numbers(axes: Axes, *, x: bool = False, y: bool = False) -> None:
    """Label the chosen axes with whole numbers only, with separators between thousands."""
    for axis, wanted in ((axes.xaxis, x), (axes.yaxis, y)):
        if wanted:
            axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def time_axis(axes: Axes) -> None:
    """Label the x axis with UTC instants, as short as possible."""
    locator = AutoDateLocator(maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))


def start_at_zero(axes: Axes) -> None:
    """Start the y axis at zero, with some room above. Call it after everything is drawn."""
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])


def to_datetimes(values_ms: Sequence[int]) -> list[Any]:
    """Convert UTC milliseconds to datetimes that an axis accepts."""
    return [utc(value) for value in values_ms]


def bars(axes: Axes, names: Sequence[str], values: Sequence[float], colours: Sequence[str]) -> None:
    """Draw horizontal bars, the first on top, each with its value at its end."""
    drawn = axes.barh(names, values, color=list(colours), height=0.65)
    axes.bar_label(drawn, fmt="{:,.0f}", padding=4, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    whole_numbers(axes, x=True)


def write_no_rows(axes: Axes, message: str = _NO_ROWS) -> None:
    """Write into empty axes why they are empty, and hide their ticks."""
    axes.text(0.5, 0.5, message, transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.tick_params(left=False, labelleft=False)
    sharing_x = axes.get_shared_x_axes().get_siblings(axes)
    # Axes that share x also share its ticks: hiding them here would hide them under the axes with data.
    if not any(other.has_data() for other in sharing_x):
        axes.tick_params(bottom=False, labelbottom=False)
