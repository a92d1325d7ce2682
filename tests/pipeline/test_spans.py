"""Which tokens the biLM reads as one sequence."""

import pickle

import pytest
import spacy
from spacy.tokens import Doc

from spacy_elmo.spans import doc_spans, sentence_spans, strided_spans

NLP = spacy.blank("en")


def texts(spans):
    return [span.text for span in spans]


def test_sentences_by_punctuation_where_the_doc_has_none():
    docs = [NLP.make_doc(text) for text in ("It rained. She left! Why?", "", "no full stop")]
    one, two, three = sentence_spans()(docs)
    assert texts(one) == ["It rained.", "She left!", "Why?"]
    assert two == [] and texts(three) == ["no full stop"]


def test_the_rule_leaves_the_doc_as_it_is():
    doc = NLP.make_doc("It rained. She left!")
    sentence_spans()([doc])
    assert not doc.has_annotation("SENT_START")


def test_sentences_that_the_doc_has_go_before_the_rule():
    words = ["It", "rained", ".", "She", "left"]
    doc = Doc(NLP.vocab, words=words, sent_starts=[True, True, False, False, True])
    assert texts(sentence_spans()([doc])[0]) == ["It", "rained . She", "left"]


def test_each_token_is_in_one_sentence():
    doc = NLP.make_doc("\n A. B?! \n\n C... D \n")
    (spans,) = sentence_spans()([doc])
    assert [token.i for span in spans for token in span] == list(range(len(doc)))


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, []),
        (1, [(0, 1)]),
        (4, [(0, 4)]),
        (5, [(0, 4), (3, 5)]),
        (7, [(0, 4), (3, 7)]),
        (8, [(0, 4), (3, 7), (6, 8)]),
    ],
)
def test_strides_cover_the_doc_and_no_window_is_superfluous(length, expected):
    doc = Doc(NLP.vocab, words=["word"] * length)
    (spans,) = strided_spans(window=4, stride=3)([doc])
    assert [(span.start, span.end) for span in spans] == expected


@pytest.mark.parametrize(("window", "stride"), [(4, 5), (4, 0), (0, 0), (4, -1)])
def test_strides_that_leave_gaps_are_refused(window, stride):
    with pytest.raises(
        ValueError, match=f"window = {window} and stride = {stride}, expected 1 <= s"
    ):
        strided_spans(window, stride)


def test_whole_docs():
    docs = [NLP.make_doc("One. Two."), NLP.make_doc("")]
    one, two = doc_spans()(docs)
    assert texts(one) == ["One. Two."] and two == []


@pytest.mark.parametrize("get_spans", [sentence_spans(), strided_spans(5, 3), doc_spans()])
def test_they_can_be_pickled(get_spans):
    doc = NLP.make_doc("It rained. She left! Why did she?")
    again = pickle.loads(pickle.dumps(get_spans))
    assert texts(again([doc])[0]) == texts(get_spans([doc])[0])


def test_a_component_before_elmo_decides_on_sentences():
    """`senter` or a rule of the user's: what stands in the Doc is read."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer", config={"punct_chars": [";"]})
    doc = nlp("It rained. She left; why")
    assert texts(sentence_spans()([doc])[0]) == ["It rained. She left;", "why"]
