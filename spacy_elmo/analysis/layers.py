"""The layers of a Doc, for any pipeline that has some: `elmo` or spacy-transformers' `transformer`."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch
from thinc.api import to_numpy

from ..pipeline import Elmo
from .pipelines import PipelineError

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class LayerReader:
    """Docs -> the layers of one component, layer 0 first.

    component (str): The component's name in the pipeline.
    predict: A batch of Docs to arrays, (layers, tokens, width) each.
    """

    nlp: Language
    component: str
    predict: Callable[[list[Doc]], list[Any]]

    def read(self, docs: Iterable[Doc], batch_size: int = 32) -> Iterator[tuple[Doc, Floats]]:
        """Each Doc, in order, with its layers. Components before the one read are run first, later ones
        are not. *Shape:* (layers, tokens, width); zero rows for whitespace.
        """
        before = self.nlp.component_names[: self.nlp.component_names.index(self.component)]
        active = [name for name in before if name in self.nlp.pipe_names]
        with self.nlp.select_pipes(enable=active):
            for batch in minibatch(self.nlp.pipe(docs) if active else docs, batch_size):
                for doc, layers in zip(batch, self.predict(list(batch)), strict=True):
                    yield doc, to_numpy(layers)

    def read_pairs(
        self, pairs: Iterable[tuple[Doc, Any]], batch_size: int = 32
    ) -> Iterator[tuple[Floats, Any]]:
        """As `read`, for Docs that come with something of their own."""
        docs, contexts = tee(pairs)
        read = self.read((doc for doc, _ in docs), batch_size)
        for (_, layers), (_, context) in zip(read, contexts, strict=True):
            yield layers, context


def layer_reader(nlp: Language, component: str | None = None) -> LayerReader:
    """The reader of a component's layers; None: of the first that has layers."""
    readable = [name for name in nlp.component_names if _kind(nlp, name)]
    if component is None and readable:
        component = readable[0]
    if component not in readable:
        what = "no component" if component is None else f"'{component}'"
        raise PipelineError(
            f"The pipeline ({', '.join(nlp.component_names) or 'empty'}) has {what} with layers to read, "
            "expected an 'elmo' or a spacy-transformers 'transformer'."
        )
    pipe: Any = nlp.get_pipe(component)
    if _kind(nlp, component) == "elmo":
        return LayerReader(nlp, component, pipe.predict)
    from ..layers.transformer_layers import doc_layers, watch

    watch(pipe.model)
    return LayerReader(
        nlp,
        component,
        lambda docs: [doc_layers(pipe.model, data) for data in pipe.predict(docs).doc_data],
    )


def _kind(nlp: Language, name: str) -> str | None:
    pipe = nlp.get_pipe(name)
    if isinstance(pipe, Elmo):
        return "elmo"
    return "transformer" if type(pipe).__module__.startswith("spacy_transformers.") else None
