"""What mixes of layers the tasks of a trained pipeline have learned (Peters et al. 2018, figure 2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from thinc.api import Model, to_numpy

from ..layers.scalar_mix import layer_weights

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class LearnedMix:
    """One listener's scalar mix.

    placement (str): "input" or "output" of the task's encoder (ElmoTok2Vec); "alone": the task has no
        vectors but the mix. kind (str): "learned", or what is held: "uniform", "top", ...
    weights: Of the layers, layer 0 first, summing to one. *Shape:* (layers,). gamma (float): The scale.
    """

    component: str
    placement: str
    kind: str
    weights: Floats
    gamma: float

    @property
    def place(self) -> str:
        return f"{self.component} {self.placement}"


@dataclass(frozen=True)
class MixSummary:
    """One place in several pipelines. Spreads are standard deviations over pipelines, NaN for one."""

    component: str
    placement: str
    kind: str
    pipelines: int
    weights: Floats
    weights_spread: Floats
    gamma: float
    gamma_spread: float


def pipeline_mixes(nlp: Language) -> list[LearnedMix]:
    """The mixes of all components that listen, in the pipeline's order."""
    return [
        LearnedMix(
            name,
            placement,
            node.attrs["weights"],
            np.asarray(to_numpy(layer_weights(node)), dtype=np.float64),
            float(node.get_param("gamma")[0]),
        )
        for name, pipe in nlp.components
        for placement, node in _mixes(getattr(pipe, "model", None))
    ]


def summarise(pipelines: Sequence[Sequence[LearnedMix]]) -> list[MixSummary]:
    """Mean and spread of each place over pipelines of one layout.

    Raises ValueError where there is nothing to show, or the pipelines' mixes differ in place or layers.
    """
    layouts = [
        [(mix.component, mix.placement, len(mix.weights)) for mix in mixes] for mixes in pipelines
    ]
    if not layouts or not layouts[0]:
        raise ValueError(
            "The pipeline has no initialized scalar mix, expected a component with an ElmoListener (or "
            "Elmo, or TransformerMixListener) in its model."
        )
    for number, layout in enumerate(layouts[1:], start=2):
        if layout != layouts[0]:
            raise ValueError(
                f"Pipeline 1 has mixes of {_told(layouts[0])}, but pipeline {number} of {_told(layout)}: "
                "expected pipelines that differ in nothing but seed and data."
            )
    return [_summarise_place(mixes) for mixes in zip(*pipelines, strict=True)]


def _summarise_place(mixes: Sequence[LearnedMix]) -> MixSummary:
    weights = np.stack([mix.weights for mix in mixes])
    gammas = np.array([mix.gamma for mix in mixes])
    several = len(mixes) > 1
    return MixSummary(
        mixes[0].component,
        mixes[0].placement,
        mixes[0].kind,
        len(mixes),
        weights.mean(axis=0),
        weights.std(axis=0, ddof=1) if several else np.full(weights.shape[1], np.nan),
        float(gammas.mean()),
        float(gammas.std(ddof=1)) if several else float("nan"),
    )


def _mixes(model: Model | None) -> Iterator[tuple[str, Model]]:
    """Scalar mixes with where they stand: in an ElmoTok2Vec what comes before encode is at its input,
    what comes after at its output.
    """
    nodes = list(model.walk(order="dfs_pre")) if isinstance(model, Model) else []
    encoders = [node.get_ref("encode") for node in nodes if node.has_ref("encode")]
    encode_at = min((nodes.index(encode) for encode in encoders), default=None)
    for at, node in enumerate(nodes):
        if node.name == "scalar_mix" and node.has_param("scalars"):
            if encode_at is None:
                yield "alone", node
            else:
                yield ("input" if at < encode_at else "output"), node


def _told(layout: Sequence[tuple[str, str, int]]) -> str:
    return (
        ", ".join(f"{component} {placement} ({n})" for component, placement, n in layout) or "none"
    )
