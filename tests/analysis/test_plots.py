"""Pictures are written without a display, in both formats, the same each time."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from spacy_elmo.analysis.plots import grouped_bars, lines_by_layer, save


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
