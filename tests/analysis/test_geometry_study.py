"""The whole study on a small biLM: what a token layer must show, and what repeats."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_elmo.analysis.geometry import intra_sentence, mean_cosine
from spacy_elmo.analysis.geometry_study import GeometryStudy, study_geometry
from spacy_elmo.analysis.layers import layer_reader
from spacy_elmo.analysis.pipelines import PipelineError
from spacy_elmo.analysis.sampling import SampleSize

WORDS = [
    "the",
    "cat",
    "dog",
    "saw",
    "a",
    "big",
    "old",
    "bird",
    "near",
    "house",
    "and",
    "ran",
    "off",
]


def texts() -> Iterator[str]:
    rng = np.random.default_rng(0)
    for _ in range(40):
        yield " ".join([*rng.choice(WORDS, size=int(rng.integers(2, 9))), "."])


def study(nlp: Language, seed: int = 0, **size: int) -> GeometryStudy:
    def read(what: str, total: int | None) -> Iterable[Doc]:
        return (nlp.make_doc(text) for text in texts())

    sample = SampleSize(**size)
    reader = layer_reader(nlp)
    return study_geometry(reader, read, model="random", text="random", size=sample, seed=seed)


def test_token_layer_is_static(nlp: Language) -> None:
    """Layer 0 sees one word: the same vector in every sentence, which all its variance follows."""
    result = study(nlp)
    assert len(result.words) == len(WORDS)
    for word in result.words:
        assert word.self_similarity[0] == pytest.approx(1, abs=1e-6)
        assert word.variance[0] == pytest.approx(1, abs=1e-6)
        assert (word.self_similarity[1:] < 1 - 1e-4).all()
    token_layer = result.layers[0]
    assert token_layer.self_similarity == pytest.approx(1, abs=1e-6)
    assert np.isnan(token_layer.published_variance)


def test_token_layer_has_static_intra_sentence_similarity(nlp: Language) -> None:
    """In the token layer it is that of the words' types: any sentence of the same words has it."""
    pipe = nlp.get_pipe("elmo")
    one, other = (
        intra_sentence(pipe.predict([nlp.make_doc(t)])[0]) for t in ("a cat saw", "saw cat a")
    )
    assert one[0] == pytest.approx(other[0], abs=1e-6)
    assert abs(one[1] - other[1]) > 1e-4


def test_rows_are_means_of_what_was_measured(nlp: Language) -> None:
    """With a sample that takes all, a plain loop over the corpus finds the same."""
    result = study(nlp, contexts=1000, sentences=1000)
    contexts: dict[str, list[np.ndarray]] = {}
    intra = []
    for text in texts():
        doc = nlp.make_doc(text)
        (layers,) = nlp.get_pipe("elmo").predict([doc])
        intra.append(intra_sentence(layers))
        seen = set()
        for token in doc:
            if not token.is_punct and token.text not in seen:
                contexts.setdefault(token.text, []).append(layers[:, token.i])
                seen.add(token.text)
    for word in result.words:
        assert word.contexts <= len(contexts[word.word])  # a repeated sentence counts once
    word = max(result.words, key=lambda word: word.contexts)
    if word.contexts == len(contexts[word.word]):
        expected = mean_cosine(np.stack(contexts[word.word], axis=1))
        np.testing.assert_allclose(word.self_similarity, expected, rtol=1e-5)
    found = [row.intra_sentence for row in result.layers]
    np.testing.assert_allclose(found, np.mean(intra, axis=0), rtol=1e-5)
    for row in result.layers:
        assert row.self_similarity_adjusted == pytest.approx(row.self_similarity - row.anisotropy)
        assert row.variance_adjusted == pytest.approx(row.variance - row.variance_baseline)


def test_study_is_seeded(nlp: Language) -> None:
    sizes = {"words": 6, "contexts": 6, "sentences": 10}
    one, again, other = study(nlp, 1, **sizes), study(nlp, 1, **sizes), study(nlp, 2, **sizes)
    assert one.layers[1:] == again.layers[1:]
    assert one.layers[1:] != other.layers[1:]
    assert len(one.words) == 6


def test_a_repeated_sentence_is_no_other_context(nlp: Language) -> None:
    def read(what: str, total: int | None) -> Iterable[Doc]:
        return (nlp.make_doc("the cat saw a bird .") for _ in range(20))

    with pytest.raises(ValueError, match="5 different sentences"):
        study_geometry(layer_reader(nlp), read, model="m", text="t")


def test_a_pipeline_without_layers_is_refused() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    with pytest.raises(PipelineError, match=r"sentencizer.*no component with layers"):
        layer_reader(nlp)
    with pytest.raises(PipelineError, match="'elmo' with layers"):
        layer_reader(nlp, "elmo")
