"""The layers of a Doc, for any pipeline that has some: `elmo` or spacy-transformers' `transformer`."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import tee
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
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

    def read(self, docs: Iterable[Doc], batch_words: int = 4096) -> Iterator[tuple[Doc, Floats]]:
        """Each Doc, in order, with its layers. Components before the one read are run first, later ones
        are not. *Shape:* (layers, tokens, width); zero rows for whitespace.

        batch_words (int): Words whose layers are held at once; a longer Doc is read alone.
        """
        before = self.nlp.component_names[: self.nlp.component_names.index(self.component)]
        active = [name for name in before if name in self.nlp.pipe_names]
        with self.nlp.select_pipes(enable=active):
            for batch in _by_words(self.nlp.pipe(docs) if active else docs, batch_words):
                for doc, layers in zip(batch, self.predict(batch), strict=True):
                    yield doc, to_numpy(layers)

    def read_pairs(self, pairs: Iterable[tuple[Doc, Any]]) -> Iterator[tuple[Floats, Any]]:
        """As `read`, for Docs that come with something of their own."""
        docs, contexts = tee(pairs)
        read = self.read(doc for doc, _ in docs)
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
    from ..layers.transformer_layers import watch

    watch(pipe.model)
    return LayerReader(nlp, component, partial(_transformer_layers, pipe))


def _transformer_layers(pipe: Any, docs: list[Doc]) -> list[Any]:
    """Docs of a length go together, as in the component's own `pipe`: what is padded costs as much as
    what is not.
    """
    from spacy_transformers.util import batch_by_length

    from ..layers.transformer_layers import doc_layers

    layers: list[Any] = [None] * len(docs)
    for batch in batch_by_length(docs, pipe.cfg["max_batch_items"]):
        datas = pipe.predict([docs[i] for i in batch]).doc_data
        for i, data in zip(batch, datas, strict=True):
            layers[i] = doc_layers(pipe.model, data)
    return layers


def _by_words(docs: Iterable[Doc], limit: int) -> Iterator[list[Doc]]:
    """Batches in order, of at most so many words or of one Doc."""
    batch: list[Doc] = []
    n_words = 0
    for doc in docs:
        if batch and n_words + len(doc) > limit:
            yield batch
            batch, n_words = [], 0
        batch.append(doc)
        n_words += len(doc)
    if batch:
        yield batch


def _kind(nlp: Language, name: str) -> str | None:
    pipe = nlp.get_pipe(name)
    if isinstance(pipe, Elmo):
        return "elmo"
    return "transformer" if type(pipe).__module__.startswith("spacy_transformers.") else None
