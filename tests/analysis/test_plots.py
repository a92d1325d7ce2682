"""Pictures are written without a display, in both formats, the same each time."""

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

from spacy_elmo.analysis.geometry_plots import FIGURES, geometry_figures
from spacy_elmo.analysis.plots import Panel, grouped_bars, lines_by_layer, points, save


def draw(folder: Path) -> list[Path]:
    folder.mkdir()
    lines = lines_by_layer(
        {"a": [0.1, 0.4], "b": [0.2, -0.1, 0.3]}, title="T", y_label="y", note="n"
    )
    bars = grouped_bars(["one", "two"], {"x": [1, 2], "y": [2, 1]}, title="T", y_label="y")
    return [*save(lines, folder / "lines.v1"), *save(bars, folder / "bars")]


def test_svg_and_png(tmp_path: Path) -> None:
    paths = draw(tmp_path / "one")
    assert [path.name for path in paths] == ["lines.v1.svg", "lines.v1.png", "bars.svg", "bars.png"]
    for path in paths:
        start = path.read_bytes()[:200]
        assert b"<?xml" in start if path.suffix == ".svg" else start.startswith(b"\x89PNG")


def test_svg_repeats_byte_for_byte_and_keeps_text(tmp_path: Path) -> None:
    one, other = draw(tmp_path / "one")[0], draw(tmp_path / "other")[0]
    assert one.read_bytes() == other.read_bytes()
    assert ">Layer (0: tokens)<" in one.read_text()


def test_no_display_is_opened() -> None:
    """pyplot, which chooses a window system, is not imported."""
    code = (
        "import sys; from spacy_elmo.analysis.plots import lines_by_layer;"
        "lines_by_layer({'a': [1, 2]}, title='', y_label='');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


LAYERS = [*(f"layer {k}" for k in range(13)), "uniform mix", "learned mix"]
VALUES = [0.5 + 0.03 * k for k in range(15)]
LEVEL = {"each word's most frequent": 0.7}
ROWS = [{column: 0.9 - 0.04 * k for column, _, _ in FIGURES.values()} for k in range(13)]
NAMES = ("en_elmo_sm", "a-transformer-of-twelve-layers", "third")
PICTURES: dict[str, Figure] = {
    **{
        f"points, {n} groups": points(
            LAYERS[-n:],
            [
                Panel("Nearest mean, ambiguous words", VALUES[:n], "accuracy", LEVEL),
                Panel("Selectivity", VALUES[:n], "accuracy less control task's"),
                Panel("Nearest use, ambiguous words", VALUES[:n], "accuracy", LEVEL),
            ],
            note="a-transformer-of-twelve-layers; gum-open-train.conllu.xz",
        )
        for n in (5, 15)
    },
    **{
        f"bars, {n} tasks": grouped_bars(
            [f"task{k}\noutput" for k in range(n)],
            {layer: [0.1] * n for layer in LAYERS[:7]},
            title="Layers mixed by each task",
            y_label="weight (softmax)",
            note="3 pipelines; whiskers: ± 1 standard deviation",
        )
        for n in (1, 6)
    },
    **geometry_figures(dict.fromkeys(NAMES, ROWS), "Text: train-000.txt.xz"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_written_fits_and_overlaps_nothing(name: str) -> None:
    figure = PICTURES[name]
    FigureCanvasAgg(figure).draw()
    page = figure.bbox
    hidden: set[Text] = set()  # numbers beyond an axis, which are not drawn
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        hidden |= {t.label1 for t in axis.get_major_ticks() if not low <= t.get_loc() <= high}
    texts = {text for text in figure.findobj(Text) if text.get_visible() and text.get_text()}
    for text in texts - hidden:
        box = text.get_window_extent()
        assert page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1, f"'{text.get_text()}' is cut"
        assert page.y0 - 1 <= box.y0 and box.y1 <= page.y1 + 1, f"'{text.get_text()}' is cut"
    for axes in figure.axes:
        label, inside = axes.yaxis.label.get_window_extent(), axes.get_window_extent()
        assert label.height <= inside.height * 1.05, f"'{axes.get_ylabel()}' is too long"
        for legend in axes.findobj(Legend):
            box = legend.get_window_extent()
            for line in axes.lines:
                marked = line.get_marker() not in ("None", None, "")
                at = axes.transData.transform(line.get_xydata()) if marked else []
                assert not any(box.contains(x, y) for x, y in at), "the legend hides a point"
    for one, other in combinations([axes.title for axes in figure.axes], 2):
        assert not one.get_window_extent().overlaps(other.get_window_extent()), "titles touch"
