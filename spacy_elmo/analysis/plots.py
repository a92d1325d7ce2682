"""Pictures of the analyses, in one style: colours for colour-blind readers; lines, markers and hatches
tell the same apart in black and white.

No display is needed: figures are drawn by matplotlib's file writers, never by pyplot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, the dark ones first; shades, dashes, markers and hatches tell the same apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo")
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "svg.fonttype": "none",
    "svg.hashsalt": "spacy-elmo",
    "hatch.linewidth": 0.6,
}


def new_figure(
    width: float = 5.0, height: float = 3.2, columns: int = 1, rows: int = 1
) -> tuple["Figure", list["Axes"]]:
    """An empty figure in the common style, sizes in inches: of each of its axes."""
    figures = require("matplotlib.figure")
    with require("matplotlib").rc_context(STYLE):
        figure = figures.Figure(figsize=(width * columns, height * rows), layout="constrained")
        return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def save(figure: "Figure", stem: Path) -> list[Path]:
    """Write stem.svg and stem.png."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png")]
    with require("matplotlib").rc_context(STYLE):
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=200, metadata=metadata)
    return paths


def lines_by_layer(
    lines: Mapping[str, Sequence[float]], *, title: str, y_label: str, note: str = ""
) -> "Figure":
    """One line a model over its layers. note: Under the picture, such as the text measured."""
    figure, (axes,) = new_figure()
    for i, (label, values) in enumerate(lines.items()):
        axes.plot(range(len(values)), values, label=label, markersize=5, linewidth=1.5, **_look(i))
    axes.set(title=title, xlabel="Layer (0: tokens)", ylabel=y_label)
    axes.xaxis.set_major_locator(require("matplotlib.ticker").MaxNLocator(integer=True))
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.0), max(high, 0.05) * 1.05)
    axes.axhline(0.0, color="#888888", linewidth=0.8)
    axes.legend(facecolor="white", edgecolor="none", framealpha=1.0)  # no grid through the names
    add_note(figure, note)
    return figure


def grouped_bars(
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    y_label: str,
    errors: Mapping[str, Sequence[float]] | None = None,
    note: str = "",
) -> "Figure":
    """Bars side by side for each group, one a series. errors: Half an error bar, by series."""
    figure, (axes,) = new_figure(width=max(4.0, 1.2 + 0.32 * len(groups) * (len(series) + 1)))
    width = 0.8 / len(series)
    for i, (label, values) in enumerate(series.items()):
        at = [g + (i - (len(series) - 1) / 2) * width for g in range(len(groups))]
        spread = None if errors is None else errors[label]
        bars = axes.bar(at, values, width, label=label, yerr=spread, capsize=2, edgecolor="black")
        for bar in bars:
            bar.set(facecolor=_shade(i), hatch=HATCHES[i % len(HATCHES)], linewidth=0.6)
    axes.set(title=title, ylabel=y_label)
    axes.set_xticks(range(len(groups)), groups)
    if len(series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    add_note(figure, note)
    return figure


def add_note(figure: "Figure", note: str) -> None:
    if note:
        figure.supxlabel(note, fontsize=7, color="#555555", x=0.99, ha="right")


def _look(i: int) -> dict[str, Any]:
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": DASHES[i % len(DASHES)],
        "marker": MARKERS[i % len(MARKERS)],
    }


def _shade(i: int) -> str:
    """Bars' colours, from light to dark."""
    shades = ("#F0F0F0", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#0072B2", "#CC79A7")
    return shades[i % len(shades)]


@dataclass(frozen=True)
class Panel:
    """Values of each group, and levels to compare them with, by name."""

    title: str
    values: Sequence[float]
    y_label: str
    baselines: Mapping[str, float] = field(default_factory=dict)


def points(groups: Sequence[str], panels: Sequence[Panel], *, note: str = "") -> "Figure":
    """A marker a group, each panel on the scale of its values: for differences that bars from zero would
    hide. Panels stand side by side, or if groups are many below each other, so that a page holds them.
    """
    width = max(3.6, 0.45 * len(groups) + 1.6)
    place = {"rows" if len(groups) > 6 else "columns": len(panels)}
    figure, all_axes = new_figure(width=width, **place)
    pad = 20 if any(panel.baselines for panel in panels) else None  # room for the levels' names
    for axes, panel in zip(all_axes, panels, strict=True):
        axes.plot(range(len(groups)), panel.values, "o", color=COLOURS[0], markersize=6)
        for i, (label, level) in enumerate(panel.baselines.items()):
            axes.axhline(
                level, label=label, color="#555555", linewidth=1.0, linestyle=DASHES[i + 1]
            )
        axes.set_title(panel.title, pad=pad)
        axes.set_ylabel(panel.y_label)
        axes.set_xticks(range(len(groups)), groups, rotation=40, ha="right", rotation_mode="anchor")
        axes.margins(x=0.08, y=0.15)
        if panel.baselines:  # above the axes: inside, a name would lie on points or on the grid
            at = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.2}
            axes.legend(fontsize=8, frameon=False, ncols=len(panel.baselines), **at)
    add_note(figure, note)
    return figure
