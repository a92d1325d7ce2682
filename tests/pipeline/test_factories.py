"""Every factory of spaCy's that has a tok2vec trains the biLM, also those that train copies of Docs."""

import copy

import numpy as np
import pytest
import spacy
from pipelines import (
    LISTENER,
    Recorder,
    add_elmo,
    bilm_gradients,
    changed,
    get_bilm,
    make_examples,
    tok2vec_config,
    weights_of,
)
from spacy.kb import InMemoryLookupKB
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import NumpyOps

ENTITIES = {"Ann": "Q1", "London": "Q2", "Bob": "Q3", "Paris": "Q4"}
PLACES = [("input",), ("output",), ("input", "output"), ()]
TEXTCAT = {
    "textcat": {
        "@architectures": "spacy.TextCatEnsemble.v2",
        "linear_model": {
            "@architectures": "spacy.TextCatBOW.v3",
            "exclusive_classes": True,
            "length": 1000,
            "ngram_size": 1,
            "no_output_layer": False,
        },
    },
    "textcat_multilabel": {
        "@architectures": "spacy.TextCatReduce.v1",
        "exclusive_classes": False,
        "use_reduce_first": False,
        "use_reduce_last": False,
        "use_reduce_max": True,
        "use_reduce_mean": True,
    },
}
FACTORIES = [
    "tagger", "morphologizer", "trainable_lemmatizer", "senter", "parser", "beam_parser", "ner",
    "beam_ner", "spancat", "spancat_singlelabel", "span_finder", "textcat", "textcat_multilabel",
    "entity_linker",
]  # fmt: skip


def make_kb(vocab):
    kb = InMemoryLookupKB(vocab, entity_vector_length=6)
    for i, (alias, entity) in enumerate(ENTITIES.items()):
        kb.add_entity(entity, 3, [float(i + 1), 2.0, -1.0, 0.5, float(-i), 1.0])
        kb.add_alias(alias, [entity], [0.9])
    return kb


def annotated(nlp):
    """With all that any factory learns from."""
    examples = make_examples(nlp)
    for i, example in enumerate(examples):
        gold = example.reference
        for token in gold:
            token.set_morph("Case=Nom" if token.is_title else "Case=Acc")
            token.lemma_ = token.text.lower()
            token.ent_kb_id_ = ENTITIES.get(token.text, "")
        gold.cats = {"even": float(i % 2 == 0), "odd": float(i % 2)}
        for key in ("sc", "span_candidates"):
            gold.spans[key] = list(gold.ents)
    return examples


def make(bilm, factory, places, **elmo):
    """places: None of them: the listener is the tok2vec."""
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm, trainable=True, **elmo)
    model = copy.deepcopy(
        TEXTCAT.get(factory) or nlp.get_factory_meta(factory).default_config["model"]
    )
    model["tok2vec"] = tok2vec_config(places) if places else dict(LISTENER)
    least = {"parser": "min_action_freq", "beam_parser": "min_action_freq"}
    least["trainable_lemmatizer"] = "min_tree_freq"
    settings = {least[factory]: 1} if factory in least else {}
    component = nlp.add_pipe(factory, config={"model": model, **settings})
    if factory == "entity_linker":
        component.set_kb(make_kb)
    nlp.initialize(lambda: annotated(nlp))
    return nlp


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("factory", FACTORIES)
def test_it_trains_the_bilm(bilm_dir, factory, places):
    if factory == "entity_linker" and places != ("input",):
        with pytest.raises(ValueError, match="expected one at the input"):
            make(bilm_dir, factory, places)
        return
    nlp = make(bilm_dir, factory, places)
    before = weights_of(get_bilm(nlp))
    optimizer = spacy.util.create_default_optimizer()
    for _ in range(4):
        nlp.update(annotated(nlp), sgd=optimizer)
    nlp.get_pipe("elmo").to_bytes()  # which finishes the last step
    assert changed(before, weights_of(get_bilm(nlp))) == list(before)


class Copies:
    """A trained component around another, which gives it other Docs than those of the batch."""

    def __init__(self, inner, copied):
        self.inner, self.copied, self.model, self.name = inner, copied, inner.model, inner.name

    def __call__(self, doc):
        return self.inner(doc)

    def update(self, examples, **settings):
        return self.inner.update([self.copied(example) for example in examples], **settings)


def anew(doc):
    return Doc(doc.vocab, words=[t.text for t in doc], spaces=[bool(t.whitespace_) for t in doc])


WAYS = {
    "copy": lambda example: Example(example.x.copy(), example.y),
    "as_doc": lambda example: Example(example.x[:].as_doc(), example.y),
    "words": lambda example: Example(anew(example.x), example.y),
    "half of them": lambda example: (
        Example(example.x.copy(), example.y) if len(example.x) % 2 else example
    ),
}


@pytest.fixture
def no_dropout(monkeypatch):
    monkeypatch.setattr(
        NumpyOps, "get_dropout_mask", lambda ops, shape, rate: ops.xp.ones(shape, "f")
    )


@pytest.mark.parametrize("annotates", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_component_that_copies_docs_sends_the_same_gradients(
    bilm_dir, no_dropout, way, annotates
):
    """annotates: The Docs, and so their copies, carry layers as well."""
    nlp = make(bilm_dir, "ner", ("input", "output"))
    nlp.update(annotated(nlp), exclude=["elmo"])
    expected = bilm_gradients(nlp)
    name, inner = nlp._components[1]
    nlp._components[1] = (name, Copies(inner, WAYS[way]))
    batch = make_examples(nlp)
    nlp.update(batch, sgd=False, annotates=["elmo"] if annotates else [])
    found = bilm_gradients_of_now(nlp)
    assert set(found) == set(expected) == set(weights_of(get_bilm(nlp)))
    for key, gradient in found.items():
        np.testing.assert_allclose(gradient, expected[key], atol=1e-5, rtol=1e-3, err_msg=key)


def bilm_gradients_of_now(nlp: Language) -> dict[str, np.ndarray]:
    recorder = Recorder()
    nlp.get_pipe("elmo").finish_update(recorder)
    return recorder.gradients


def test_copies_in_an_update_without_elmo_teach_it_nothing(bilm_dir):
    """Its own batch before is over."""
    nlp = make(bilm_dir, "ner", ("input",))
    name, inner = nlp._components[1]
    nlp._components[1] = (name, Copies(inner, WAYS["copy"]))
    nlp.update(annotated(nlp), sgd=False)
    bilm_gradients_of_now(nlp)
    nlp.update(annotated(nlp), sgd=False, exclude=["elmo"])
    assert bilm_gradients_of_now(nlp) == {}
