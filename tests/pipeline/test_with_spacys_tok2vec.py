"""spaCy's own shared tok2vec in the same pipeline: both want doc.tensor, its readers keep it."""

import warnings

import numpy as np
import pytest
import spacy
from pipelines import add_elmo, add_task, make_examples, train
from spacy.pipeline.tok2vec import DEFAULT_TOK2VEC_MODEL
from spacy.util import load_model_from_config
from thinc.api import fix_random_seed

from spacy_elmo.training_config import elmo_config

TEXTS = ["Ann met Bob in London.", "", "She likes it. We sold London!"]


def make_plain():
    """tok2vec, and a tagger that listens to it."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": {**DEFAULT_TOK2VEC_MODEL, "width": 32, "depth": 1}})
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 32}
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    nlp.add_pipe("tagger", config={"model": model})
    nlp.initialize(lambda: make_examples(nlp))
    train(nlp)
    return nlp


def scores(nlp):
    return [nlp.get_pipe("tagger").model.predict([nlp(text)])[0] for text in TEXTS]


@pytest.mark.parametrize("position", [{"after": "tok2vec"}, {"first": True}])
def test_its_listeners_keep_their_predictions(bilm_dir, position):
    nlp = make_plain()
    expected = scores(nlp)
    with pytest.warns(
        UserWarning, match="'elmo' leaves doc.tensor to spaCy's tok2vec, because 'tagger'"
    ):
        nlp.add_pipe("elmo", config={"model": {"name": str(bilm_dir)}}, **position)
    for one, other in zip(expected, scores(nlp), strict=True):
        np.testing.assert_array_equal(one, other)
    doc = nlp(TEXTS[0])
    assert doc.tensor.shape[1] == 32 and doc._.elmo.layers.shape[2] == 16


@pytest.mark.filterwarnings("ignore:'elmo' leaves doc.tensor")
def test_both_train_side_by_side(bilm_dir):
    nlp = make_plain()
    nlp.add_pipe("elmo", config={"model": {"name": str(bilm_dir)}}, after="tok2vec")
    add_task(nlp, "ner")
    nlp.get_pipe("ner").initialize(lambda: make_examples(nlp), nlp=nlp)
    losses = train(nlp, annotates=["tok2vec", "elmo", "tagger"])
    assert losses["tok2vec"] > 0 and losses["ner"] > 0 and losses["elmo"] == 0
    assert nlp.get_pipe("elmo").listening_components == ["ner"]


def test_the_tensor_is_elmos_again_when_nobody_else_reads_it(bilm_dir):
    nlp = make_plain()
    with pytest.warns(UserWarning, match="leaves doc.tensor"):
        nlp.add_pipe("elmo", config={"model": {"name": str(bilm_dir)}}, after="tok2vec")
    nlp.remove_pipe("tagger")
    assert nlp(TEXTS[0]).tensor.shape[1] == 16


def test_no_warning_without_a_conflict(bilm_dir):
    """A reader before `elmo` has read it already."""
    nlp = make_plain()
    expected = scores(nlp)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add_elmo(nlp, bilm_dir)
    doc = nlp(TEXTS[0])
    assert doc.tensor.shape[1] == 16
    assert [t.tag_ for t in doc] == [
        nlp.get_pipe("tagger").labels[int(row.argmax())] for row in expected[0]
    ]


def test_a_shared_tok2vec_that_listens(bilm_dir, tmp_path):
    """Trains its mix, and gives its readers the same after loading; nothing to warn of."""
    config, _ = elmo_config("en", ["tagger", "ner"], str(bilm_dir), "shared", "efficiency")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fix_random_seed(0)
        nlp = load_model_from_config(config)
        nlp.initialize(lambda: make_examples(nlp))
        before = mix_scalars(nlp)
        assert train(nlp)["tok2vec"] > 0
        nlp.to_disk(tmp_path)
        loaded = spacy.load(tmp_path)
    assert np.abs(mix_scalars(nlp) - before).max() > 0
    for text in TEXTS:
        one, other = nlp(text), loaded(text)
        np.testing.assert_allclose(one.tensor, other.tensor, atol=1e-4)
        assert one.tensor.shape[1] == 96
        assert [t.tag_ for t in one] == [t.tag_ for t in other]


def mix_scalars(nlp):
    (mix,) = [n for n in nlp.get_pipe("tok2vec").model.walk() if n.has_param("scalars")]
    return mix.get_param("scalars").copy()


def test_elmo_as_the_shared_tok2vec(bilm_dir):
    """`spacy-elmo.Elmo.v1` inside spaCy's component, with spaCy's listeners."""
    nlp = spacy.blank("en")
    bilm = {"@architectures": "spacy-elmo.BiLM.v1", "name": str(bilm_dir)}
    model = {"@architectures": "spacy-elmo.Elmo.v1", "bilm": bilm}
    nlp.add_pipe("tok2vec", config={"model": model})
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16}
    nlp.add_pipe(
        "tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}}
    )
    nlp.initialize(lambda: make_examples(nlp))
    assert train(nlp)["tok2vec"] > 0
    assert [nlp(text).tensor.shape[1] for text in TEXTS] == [16] * 3
