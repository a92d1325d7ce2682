"""The figures of Ethayarajh 2019: anisotropy (figure 1), and the three adjusted measures (2, 3, 4), the
last also as its tables have it; see `geometry.explained_variance`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .plots import lines_by_layer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# file name: (column of the table by layer, title, label of the y axis)
FIGURES = {
    "anisotropy": ("anisotropy", "Mean cosine of random words", "cosine"),
    "self-similarity": (
        "self_similarity_adjusted",
        "Self-similarity of words, less anisotropy",
        "cosine",
    ),
    "intra-sentence": (
        "intra_sentence_adjusted",
        "Intra-sentence similarity, less anisotropy",
        "cosine",
    ),
    "explained-variance": (
        "variance_adjusted",
        "Variance a static vector can explain, adjusted",
        "share of variance (MEV)",
    ),
    "published-variance": (
        "published_variance",
        "Variance explained as published: about the mean",
        "share of variance",
    ),
}


def geometry_figures(
    models: Mapping[str, Sequence[Mapping[str, Any]]], note: str = ""
) -> dict[str, "Figure"]:
    """models: Of each name the rows of its table, one a layer. Returns figures by file name."""
    return {
        name: lines_by_layer(
            {model: [row[column] for row in rows] for model, rows in models.items()},
            title=title,
            y_label=label,
            note=note,
        )
        for name, (column, title, label) in FIGURES.items()
    }
