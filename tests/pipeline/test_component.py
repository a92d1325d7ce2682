"""The component right after `nlp.add_pipe`."""

import numpy as np
import pytest
import spacy
from conftest import random_bilm
from pipelines import TEXTS, add_elmo, counting_bilm_calls, make_nlp, mixes, tok2vec_config
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_elmo.bilm.embedder import Embedder
from spacy_elmo.output import USER_DATA_KEY, ElmoOutput, get_layers


@pytest.fixture(scope="module")
def nlp(bilm_dir):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir)
    return nlp


@pytest.mark.parametrize("text", TEXTS)
def test_it_works_without_initialize(nlp, text):
    doc = nlp(text)
    assert isinstance(doc._.elmo, ElmoOutput)
    layers = doc._.elmo.layers
    assert layers.shape == (3, len(doc), 16) and layers.dtype == np.float32
    assert doc.tensor.shape == (len(doc), 16) and doc.tensor.dtype == np.float32
    np.testing.assert_allclose(doc.tensor, layers.mean(axis=0), atol=1e-5)
    spaces = [token.is_space for token in doc]
    assert not layers[:, spaces].any() and not doc.tensor[spaces].any()


def test_layers_are_the_bilms(nlp):
    doc = nlp("The bank of the river")
    (expected,) = Embedder(random_bilm())([["The", "bank", "of", "the", "river"]])
    np.testing.assert_allclose(doc._.elmo.layers, expected, atol=1e-6)


def test_a_doc_that_it_has_not_seen_has_no_layers(nlp):
    assert nlp.make_doc("The bank")._.elmo is None


@pytest.mark.parametrize(
    ("weights", "expected"),
    [("uniform", [1, 1, 1]), ("token", [3, 0, 0]), ("layer1", [0, 3, 0]), ("top", [0, 0, 3])],
)
def test_the_tensor_is_the_components_own_mix(bilm_dir, weights, expected):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, mix={"@layers": "spacy-elmo.ScalarMix.v1", "weights": weights})
    doc = nlp("The bank of the river")
    mixed = np.tensordot(expected, doc._.elmo.layers, axes=1) / 3
    np.testing.assert_allclose(doc.tensor, mixed, atol=1e-5)


def test_spans_are_the_models_choice(bilm_dir):
    text = "One sentence. Another one."
    vectors = {}
    for kind in ("sentence", "doc"):
        nlp = spacy.blank("en")
        add_elmo(nlp, bilm_dir, get_spans={"@misc": f"spacy-elmo.{kind}_spans.v1"})
        vectors[kind] = nlp(text)._.elmo.layers
    np.testing.assert_allclose(vectors["sentence"][0], vectors["doc"][0], atol=1e-5)
    assert np.abs(vectors["sentence"][1:] - vectors["doc"][1:]).max() > 1e-3


def test_layers_are_dropped_where_nothing_needs_them(bilm_dir):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir, keep_layers=False)
    doc = nlp("The bank")
    assert doc._.elmo is None and USER_DATA_KEY not in doc.user_data
    assert doc.tensor.any()


def test_layers_are_kept_for_listeners(bilm_dir):
    nlp = make_nlp(bilm_dir, keep_layers=False)
    assert nlp("The bank")._.elmo.layers.any()


def test_a_listener_that_was_not_linked_gets_layers_on_demand(bilm_dir):
    """spaCy leaves frozen components out while it links the others for `initialize`."""
    nlp = make_nlp(bilm_dir, keep_layers=False)
    expected = [token.tag_ for token in nlp("Ann met Bob")]
    with nlp.select_pipes(disable="tagger"):
        nlp.initialize()
    assert nlp.get_pipe("elmo").listener_map == {}
    assert [token.tag_ for token in nlp("Ann met Bob")] == expected


def test_layers_travel_in_bytes(nlp):
    for text in TEXTS:
        doc = nlp(text)
        with pytest.warns(UserWarning, match="W109"):
            stored = doc.to_bytes()
        again = Doc(nlp.vocab).from_bytes(stored)
        np.testing.assert_array_equal(again._.elmo.layers, doc._.elmo.layers)
        np.testing.assert_array_equal(again.tensor, doc.tensor)


def test_layers_travel_in_a_docbin(nlp, bilm_dir):
    docs = [nlp(text) for text in TEXTS]
    stored = DocBin(store_user_data=True, docs=docs).to_bytes()
    again = list(DocBin().from_bytes(stored).get_docs(spacy.blank("en").vocab))
    for doc, found in zip(docs, again, strict=True):
        np.testing.assert_array_equal(found._.elmo.layers, doc._.elmo.layers)


def test_a_copied_doc_has_its_layers(nlp):
    doc = nlp("The bank of the river")
    np.testing.assert_array_equal(doc.copy()._.elmo.layers, doc._.elmo.layers)


@pytest.mark.filterwarnings("ignore:.*'elmo_spans'")
def test_merging_docs_says_that_layers_are_left_out(nlp):
    docs = [nlp("The bank"), nlp("of the river")]
    with pytest.warns(UserWarning, match=r"W101.*'elmo'"):
        merged = Doc.from_docs(docs)
    assert merged._.elmo is None


@pytest.mark.parametrize("change", ["merge", "split"])
def test_a_doc_whose_tokens_changed_says_so(nlp, change):
    doc = nlp("New York grows")
    with doc.retokenize() as retokenizer:
        if change == "merge":
            retokenizer.merge(doc[:2])
        else:
            retokenizer.split(doc[2], ["grow", "s"], heads=[(doc[2], 1), doc[0]])
    with pytest.raises(
        ValueError, match=f"those of 3 tokens, but it has {len(doc)}.*merged or split"
    ):
        _ = doc._.elmo
    assert nlp(doc)._.elmo.layers.shape[1] == len(doc)


def test_it_can_be_disabled(bilm_dir):
    """Listeners then ask for the layers themselves."""
    nlp = make_nlp(bilm_dir, ("tagger", "ner"))
    expected = nlp("Ann met Bob")
    with nlp.select_pipes(disable="elmo"), counting_bilm_calls(nlp) as calls:
        doc = nlp("Ann met Bob")
    assert [token.tag_ for token in doc] == [token.tag_ for token in expected]
    assert calls == [1], "both listeners together read it once"
    assert not doc.tensor.size and not doc.user_data


def test_it_can_be_removed_and_added_again(bilm_dir):
    nlp = make_nlp(bilm_dir)
    expected = [token.tag_ for token in nlp("Ann met Bob")]
    nlp.remove_pipe("elmo")
    with pytest.raises(ValueError, match="found no `elmo` component before"):
        nlp("Ann met Bob")
    nlp.add_pipe("elmo", first=True, config={"model": {"name": str(bilm_dir)}})
    assert [token.tag_ for token in nlp("Ann met Bob")] == expected


def test_it_can_be_renamed(bilm_dir):
    nlp = make_nlp(bilm_dir)
    expected = [token.tag_ for token in nlp("Ann met Bob")]
    nlp.rename_pipe("elmo", "features")
    doc = nlp("Ann met Bob")
    assert [token.tag_ for token in doc] == expected
    assert get_layers(doc, "features") is doc._.elmo.layers


def test_what_it_assigns_is_known_to_spacy(bilm_dir):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir)
    assert nlp.get_pipe_meta("elmo").assigns == ["doc._.elmo", "doc.tensor"]


def test_it_has_no_labels(nlp):
    with pytest.raises(NotImplementedError, match="'elmo' has no labels"):
        nlp.get_pipe("elmo").add_label("X")


def test_a_component_that_reduces_its_tok2vec_listens_too(bilm_dir):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm_dir)
    model = {
        "@architectures": "spacy.TextCatReduce.v1",
        "exclusive_classes": True,
        "use_reduce_first": False,
        "use_reduce_last": False,
        "use_reduce_max": True,
        "use_reduce_mean": True,
        "tok2vec": tok2vec_config(("output",)),
    }
    nlp.add_pipe("textcat", config={"model": model})
    examples = []
    for text, label in (("Ann met Bob", "people"), ("Paris is old", "places")):
        cats = {"people": float(label == "people"), "places": float(label == "places")}
        examples.append(Example.from_dict(nlp.make_doc(text), {"cats": cats}))
    optimizer = nlp.initialize(lambda: examples)
    (before,) = mixes(nlp.get_pipe("textcat"))
    nlp.update(examples, sgd=optimizer)
    assert mixes(nlp.get_pipe("textcat")) != [before]
    assert set(nlp("Ann is old").cats) == {"people", "places"}
