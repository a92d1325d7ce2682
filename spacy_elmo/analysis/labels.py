"""Annotated Docs -> vectors with labels, for probes: as many as asked for, from the whole of the
corpus.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from spacy.tokens import Doc, Token

from .corpus import CorpusReading
from .layers import Floats, LayerReader
from .probes import LabelledVectors

GetLabel = Callable[[Token], str]


def label_getter(name: str) -> GetLabel:
    """name: "tag", "pos", "morph" (all features as one label) or "morph:Number" (one of them;
    "none" where a token has it not). An empty label means that a token has no annotation.
    """
    attribute, _, feature = name.partition(":")
    if attribute == "morph" and feature:
        return lambda token: token.morph.get(feature, ["none"])[0] if token.has_morph() else ""
    getters: dict[str, GetLabel] = {
        "tag": lambda token: token.tag_,
        "pos": lambda token: token.pos_,
        "morph": lambda token: (str(token.morph) or "none") if token.has_morph() else "",
    }
    if name not in getters:
        raise ValueError(
            f"There is no label '{name}', expected 'tag', 'pos', 'morph' or a feature, as 'morph:Number'."
        )
    return getters[name]


def labelled_vectors(
    reader: LayerReader,
    read: CorpusReading,
    get_label: GetLabel,
    *,
    max_words: int,
    seed: int,
    what: str,
) -> LabelledVectors:
    """Vectors of at most max_words labelled words, from Docs drawn evenly over the corpus, which is read
    twice: counted first, so that only what is drawn is embedded.
    """
    rng = np.random.default_rng(seed)
    n_words = n_docs = 0
    for doc in read(f"Count words {what}", None):
        n_docs += 1
        n_words += sum(bool(get_label(token)) for token in doc)
    share = min(1.0, 1.1 * max_words / n_words) if n_words else 0.0  # a little more than enough
    vectors: list[Floats] = []
    words: list[str] = []
    labels: list[str] = []
    for doc, layers in reader.read(_draw(read(f"Embed words {what}", n_docs), share, rng)):
        found = [(token.i, label) for token in doc if (label := get_label(token))]
        found = found[: max_words - len(labels)]
        vectors.append(layers[:, [i for i, _ in found]])
        words += [doc[i].text for i, _ in found]
        labels += [label for _, label in found]
    if not labels:
        raise ValueError(
            f"The data {what} has no word with the label asked for, expected an annotated corpus "
            "(.conllu, .spacy)."
        )
    return LabelledVectors(np.concatenate(vectors, axis=1), words, labels)


def _draw(docs: Iterable[Doc], share: float, rng: np.random.Generator) -> Iterator[Doc]:
    return (doc for doc in docs if rng.random() < share)
