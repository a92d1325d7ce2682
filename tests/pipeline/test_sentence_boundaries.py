"""Sentences that are set after `elmo` has read a Doc change no vectors."""

import numpy as np
import pytest
import spacy
from pipelines import TEXTS, add_elmo, add_task, make_examples, make_warm_nlp, predictions, train
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_elmo.spans import sentence_spans

TASKS = ("parser", "tagger", "ner")
PLACES = [("input",), ("output",), ("input", "output")]
MORE = [*TEXTS, "Ann sold it Bob met Ann London is old", "We met . She sold it . Ann , Bob"]


@Language.component("every_second_token")
def every_second_token(doc):
    """Sentences that no rule would find."""
    for token in doc:
        token.is_sent_start = token.i % 2 == 0
    return doc


def with_parser(bilm, **settings):
    return make_warm_nlp(bilm, TASKS, **settings)


def with_rule(bilm, **settings):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm, **settings)
    nlp.add_pipe("every_second_token")
    return nlp


def by_docbin(nlp, doc):
    stored = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    (again,) = DocBin().from_bytes(stored).get_docs(nlp.vocab)
    return again


@pytest.mark.parametrize("settings", [{}, {"carry_state": True}])
@pytest.mark.parametrize("given", [False, True], ids=["text", "sentences given"])
@pytest.mark.parametrize("way", [lambda nlp, doc: doc, lambda nlp, doc: doc.copy(), by_docbin])
@pytest.mark.parametrize("make", [with_parser, with_rule])
def test_a_second_reading_gives_the_same(bilm_dir, make, way, given, settings):
    nlp = make(bilm_dir, **settings)
    for text in MORE:
        doc = nlp.make_doc(text)
        if given:
            for token in doc:
                token.is_sent_start = token.i % 3 == 0
        layers = nlp(doc)._.elmo.layers.copy()
        again = nlp(way(nlp, doc))
        np.testing.assert_allclose(again._.elmo.layers, layers, atol=1e-5)


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("places", PLACES)
def test_listeners_replaced_behind_a_parser(bilm_dir, places, removed):
    nlp = with_parser(bilm_dir, places=places)
    train(nlp, steps=5)
    expected = predictions(nlp, MORE)
    for task in TASKS:
        nlp.replace_listeners("elmo", task, [f"model.tok2vec.{place}" for place in places])
    if removed:
        nlp.remove_pipe("elmo")
    assert predictions(nlp, MORE) == expected


def parsed():
    words = ["It", "rained", "She", "left"]
    return Doc(
        spacy.blank("en").vocab, words=words, heads=[1, 1, 3, 3], deps=["s", "ROOT", "s", "ROOT"]
    )


def test_a_parse_counts_where_it_is_asked_for():
    doc = parsed()
    assert [span.text for span in sentence_spans()([doc])[0]] == ["It rained She left"]
    assert [span.text for span in sentence_spans(parsed=True)([doc])[0]] == [
        "It rained",
        "She left",
    ]


def test_tokens_that_changed_have_new_sentences(bilm_dir):
    nlp = with_rule(bilm_dir)
    doc = nlp("New York grows. It grows")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    assert [span.start for span in sentence_spans()([doc])[0]] != [0]
    assert nlp(doc)._.elmo.layers.shape[1] == len(doc)


def test_what_training_reads_is_remembered_by_nobody(bilm_dir):
    """Components before `elmo` may set other sentences the next time."""
    nlp = spacy.blank("en")
    nlp.add_pipe("every_second_token")
    add_elmo(nlp, bilm_dir)
    add_task(nlp, "tagger")
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    nlp.update(examples, annotates=["every_second_token", "elmo"])
    assert not any(example.predicted.user_data for example in examples)
